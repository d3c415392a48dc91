# %% [markdown]
# # Developing a photograph
#
# A camera's linear light becomes a picture in steps: exposure, a tone curve that keeps highlights, gamma, an unsharp
# mask, and rounding to bytes. Each step is a pass over the image in NumPy. Fused, only the blur of the unsharp mask
# needs its neighbours' values; everything else joins the kernels beside it.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import compare, pick, show

import fusedsl as fd

# %% [markdown]
# A scene of high dynamic range: a lamp and its light on three spheres, 4,000 times as bright as the shadows.


# %%
def scene(height, width):
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1.7, 1.7, width), indexing="ij")
    lamp = np.float64([1.0, -0.85, 0.9])
    light = np.stack([0.02 + 0.05 * (y + 1)] * 3, -1) * (0.9, 1.0, 1.25)
    light *= 1 + 0.5 * (np.sin(40 * x) * np.sin(40 * y) > 0)[..., None]
    for cx, cy, radius, colour in (
        (-0.9, 0.2, 0.6, (1, 0.35, 0.2)),
        (0.25, 0.35, 0.5, (0.3, 0.8, 0.4)),
        (1.1, 0.5, 0.4, (0.3, 0.45, 1)),
    ):
        inside = radius**2 - (x - cx) ** 2 - (y - cy) ** 2
        z = np.sqrt(np.maximum(inside, 0))
        towards = lamp - np.stack([x, y, z], -1)
        distance = np.linalg.norm(towards, axis=-1)
        normal = np.stack([x - cx, y - cy, z], -1) / radius
        cosine = np.maximum((normal * towards).sum(-1) / distance, 0)
        lit = np.float64(colour) * (0.03 + 3 * cosine / distance**2 + 25 * cosine**60)[..., None]
        light = np.where((inside > 0)[..., None], lit, light)
    glow = 60 * np.exp(-40 * ((x - lamp[0]) ** 2 + (y - lamp[1]) ** 2))
    return (light + glow[..., None]).astype(np.float32)


# %% [markdown]
# `develop` is a NumPy function. The tone curve is Narkowicz's fit of the ACES film curve; the blur is a binomial
# kernel of 5 × 5 pixels, first along columns, then along rows.


# %%
def blurred(image, axis):
    size = image.shape[axis]
    padded = np.pad(image, [(2, 2) if a == axis else (0, 0) for a in range(3)], mode="edge")
    parts = [padded[k : k + size] if axis == 0 else padded[:, k : k + size] for k in range(5)]
    return (parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]) / 16


@fd.fuse
def develop(light, exposure, amount):
    x = light * exposure
    tone = np.clip(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0, 1)
    encoded = np.where(tone < 0.0031308, 12.92 * tone, 1.055 * tone ** (1 / 2.4) - 0.055)
    sharp = encoded + amount * (encoded - blurred(blurred(encoded, 0), 1))
    return (np.clip(sharp, 0, 1) * 255 + 0.5).astype(np.uint8)


# %%
light = scene(pick(270, 1080), pick(480, 1920))
picture = develop(light, 0.8, 1.5)
compare(
    f"developing {light.shape[1]} × {light.shape[0]} pixels", develop, develop.__wrapped__, (light, 0.8, 1.5), 1 / 255
)

# %%
figure, both = plt.subplots(1, 2, figsize=(5.2, 1.75), layout="constrained")
for axes, image, title in zip(both, (np.clip(light, 0, 1), picture), ("linear light, clipped", "developed")):
    axes.imshow(image, aspect="equal")
    axes.set_title(title)
    axes.set_axis_off()
show(figure, "images")
