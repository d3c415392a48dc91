# %% [markdown]
# # A mixture of Gaussians
#
# An iteration of expectation maximisation computes the log density of each point under each component, turns these
# into responsibilities by a softmax, and sums the points' weights, positions and squares under them. The
# responsibilities are needed for nothing else: fused, they are never stored.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import BLUE, GREEN, ORANGE, VIOLET, compare, pick, show

import fusedsl as fd


# %%
def log_densities(x, y, share, mean, cov):
    """Of each point under each component, (points, components), times the component's share."""
    dx, dy = x[:, None] - mean[0], y[:, None] - mean[1]
    det = cov[0] * cov[1] - cov[2] ** 2
    distance = (cov[1] * dx * dx - 2 * cov[2] * dx * dy + cov[0] * dy * dy) / det
    return np.log(share) - 0.5 * np.log(det) - 0.5 * distance - np.log(2 * np.pi)


@fd.fuse
def step(x, y, share, mean, cov):
    """The next shares, means (x, y) and covariances (xx, yy, xy), and the mean log-likelihood."""
    log_density = log_densities(x, y, share, mean, cov)
    largest = log_density.max(axis=1, keepdims=True)
    density = np.exp(log_density - largest)
    total = density.sum(axis=1, keepdims=True)
    weight = density / total
    n = weight.sum(axis=0)
    dx, dy = x[:, None] - mean[0], y[:, None] - mean[1]
    ax, ay, xx, yy, xy = ((weight * part).sum(axis=0) / n for part in (dx, dy, dx * dx, dy * dy, dx * dy))
    mean, cov = (mean[0] + ax, mean[1] + ay), (xx - ax * ax, yy - ay * ay, xy - ax * ay)
    return n / x.shape[0], mean, cov, (largest + np.log(total)).mean()


# %% [markdown]
# Points of four groups, and four components that start anywhere.

# %%
random = np.random.default_rng(1)
count, k = pick(20_000, 1_000_000), 4
groups = (  # mean, variances, covariance
    ((-2, 0), (0.9, 0.2), 0.25),
    ((1.5, 1.5), (0.3, 0.6), -0.1),
    ((1, -1.5), (1.2, 0.15), 0.05),
    ((-1, 2.5), (0.2, 0.2), 0),
)
drawn = [random.multivariate_normal(at, [[xx, xy], [xy, yy]], count // k) for at, (xx, yy), xy in groups]
x, y = np.concatenate(drawn).T.copy()
state = np.full(k, 1 / k), tuple(random.standard_normal((2, k))), (np.ones(k), np.ones(k), np.zeros(k))
compare(f"an iteration on {count:,} points", step, step.__wrapped__, (x, y, *state), 1e-9)

likelihoods = []
for _ in range(60):
    *state, likelihood = step(x, y, *state)
    likelihoods.append(float(likelihood))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.3), layout="constrained", width_ratios=(1.5, 1))
some = random.choice(count, 2500, replace=False)
nearest = log_densities(x[some], y[some], *state).argmax(axis=1)
_, mean, (xx, yy, xy) = state
turn = np.linspace(0, 2 * np.pi, 100)
for j, colour in enumerate((BLUE, ORANGE, GREEN, VIOLET)):
    left.scatter(x[some][nearest == j], y[some][nearest == j], s=3, color=colour, alpha=0.5, linewidths=0)
    root = np.linalg.cholesky([[xx[j], xy[j]], [xy[j], yy[j]]])
    for radius in (1, 2):
        left.plot(
            *(np.array(mean)[:, j : j + 1] + radius * root @ [np.cos(turn), np.sin(turn)]), color=colour, linewidth=1.2
        )
left.set(aspect="equal", title="points and components")
right.plot(likelihoods, color=BLUE)
right.set(xlabel="iteration", title="mean log-likelihood of a point")
show(figure, "gaussian_mixture")
