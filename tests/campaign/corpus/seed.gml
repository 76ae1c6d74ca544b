graph [
  node [ id 0 label "home" ]
  node [ id 1 label "shop" ]
  node [ id 2 label "work" open 1 ]
  edge [ source 0 target 1 weight 3.0 ]
  edge [ source 1 target 2 weight 1 ]
]
