"""The distance between two decision processes, known or recorded, from their initial distributions."""

from __future__ import annotations

import math, time
import numpy as np
from somcot.mdp.pairs import Comparison, Side, Tables

def tables_of(c, side, weights, fallback):
    n=len(c.states); R=len(side.tables.reward)
    counts=np.bincount(side.keys,weights[side.unit],R*n).reshape(R,n)
    vis=counts.sum(1); rew=np.bincount(side.rows,weights[side.unit]*side.rewards,R)
    law=fallback.law.copy(); r=fallback.reward.copy(); ok=vis>0
    law[:-1][ok]=counts[ok]/vis[ok,None]; r[ok]=rew[ok]/vis[ok]
    if not side.known[-1]:
        st=np.bincount(side.starts,weights[side.start_unit],n)
        if st.sum()>0: law[-1]=st/st.sum()
    return Tables(law,r)

def permuted(c, rng):
    """one regrouping of all units"""
    x,y=c.x,c.y; N=x.n_units+y.n_units; g=rng.permutation(N)<x.n_units
    out=[]
    for sel in (g,~g):
        w=sel.astype(float)
        out.append(add(c,w[:x.n_units],w[x.n_units:]))
    return out, g
def add(c,wx,wy):
    n=len(c.states); R=len(c.x.tables.reward); counts=np.zeros((R,n)); rew=np.zeros(R); st=np.zeros(n)
    for side,w in ((c.x,wx),(c.y,wy)):
        counts+=np.bincount(side.keys,w[side.unit],R*n).reshape(R,n); rew+=np.bincount(side.rows,w[side.unit]*side.rewards,R); st+=np.bincount(side.starts,w[side.start_unit],n)
    vis=counts.sum(1); law=c.middle.law.copy(); r=c.middle.reward.copy(); ok=vis>0
    law[:-1][ok]=counts[ok]/vis[ok,None]; r[ok]=rew[ok]/vis[ok]
    if not c.x.known[-1] and st.sum()>0: law[-1]=st/st.sum()
    return Tables(law,r)
