"""Linear-Gaussian processes: their distance in closed form, its optimal coupling, and fitted models.

The processes are x' = A x + a + S e and y' = B y + b + R f with standard normal e and f, and Gaussian initial
distributions. For the squared Euclidean cost their distance is known exactly, in any dimension::

    P = I + g A'P A,   W = I + g B'W B,   Q = I + g A'Q B                                     (g: the discount)
    d = (1 - g) sum_t g^t |E x_t - E y_t|^2
      + (1 - g) [tr P C_x + tr W C_y - 2 ||F_x' Q F_y||_*]       starts N(m, C), C = F F'
      +      g  [tr P S S' + tr W R R' - 2 ||S' Q R||_*]         ||.||_* : sum of the singular values

*Proof.* E|x_t|^2 and E|y_t|^2 do not depend on the coupling, so the sum of g^t E[x_t'y_t] has to be maximised.
Let its maximum from (x, y) be x'Q y + (affine terms) + k. One step: E[x_1'Q y_1] is the product of the means plus
tr(S'QR K'), with K the covariance of e and f, any matrix of norm at most 1; the largest value is the nuclear norm,
attained by f = O e with O = Z U', S'QR = U D Z'. The affine terms are transported at the same cost by every
coupling, so the form is preserved, and Q solves the equation above. The sums converge if g times the squared spectral
radius of A and of B is below 1.

For the Euclidean cost the same coupling gives an upper bound: x_t - y_t is Gaussian under it, and the mean of its norm
is a one-dimensional integral. For a lower bound, x_t and y_t are coupled optimally at each time, and the norm is at
least the difference of any projection; in one dimension that transport is known. In one dimension with A B >= 0 the
upper bound is attained: all later costs are sums of convex functions of (alpha x - beta y), alpha beta >= 0, which are
minimised by the comonotone coupling, and one step of common noise preserves that form.
"""

from somcot.gaussian.closed_form import GaussianDistance, between, distance
from somcot.gaussian.linear import Linear, fit

__all__ = ["GaussianDistance", "Linear", "between", "distance", "fit"]
