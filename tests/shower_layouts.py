"""Files of the public layouts of showers, written with h5py as their authors write them, not with our writers."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import h5py
import numpy as np

# Edges (mm) and angles of the layers of CaloChallenge's binning XML, for photons (368 voxels) and pions (533).
_FINE = tuple(range(0, 401, 20))
PHOTONS = [
    ((0, 5, 10, 30, 50, 100, 200, 400, 600), 1),
    ((0, 2, 4, 6, 8, 10, 12, 15, 20, 30, 40, 50, 70, 90, 120, 150, 200), 10),
    (_FINE[:20], 10),
    *[((0,), 1)] * 8,
    ((0, 50, 100, 200, 400, 600), 1),
    ((0, 100, 200, 400, 1000, 2000), 1),
]
PIONS = [
    ((0, 5, 10, 30, 50, 100, 200, 400, 600), 1),
    ((0, 2, 5, 10, 15, 30, 50, 90, 150, 200, 400), 10),
    ((0, 5, 10, 20, 30, 50, 90, 150, 200, 300, 400), 10),
    ((0, 50, 100, 200, 400, 600), 1),
    *[((0,), 1)] * 8,
    ((*_FINE[:14], 400, 600), 10),
    ((*_FINE[:15], 400, 600), 10),
    ((0, 50, 100, 150, 200, 250, 300, 400, 600, 1000, 2000), 1),
]
SECOND = [(tuple(4.65 * n for n in range(10)), 16)] * 45
THIRD = [(tuple(2.325 * n for n in range(19)), 50)] * 45


def write_xml(path, layers, name="electron", *, more=""):
    """Writes a binning XML of (edges, angles) per layer."""
    rows = "".join(
        f'<Layer id="{number}" r_edges="{",".join(map(str, edges))}" n_bin_alpha="{angles}" />'
        for number, (edges, angles) in enumerate(layers)
    )
    path.write_text(f'<Bins><Bin pid="11" name="{name}">{rows}</Bin>{more}</Bins>')
    return str(path)


def layer_sums(file, binning):
    """Energy per layer as README.md of CaloChallenge says: radius fastest, then angle, then layer. Not our reader."""
    starts = [0]
    for layer in ET.parse(binning).getroot()[0]:  # noqa: S314 - written above
        rings = len(layer.attrib["r_edges"].split(",")) - 1
        starts.append(starts[-1] + rings * int(layer.attrib["n_bin_alpha"]))
    with h5py.File(file) as content:
        showers = content["showers"][:]
    assert showers.shape[1] == starts[-1]
    return np.stack([showers[:, a:b].sum(1) for a, b in pairwise(starts) if b > a], 1)


def energies(count, low, high, *, seed):
    """Primary energies, equally many in each decade."""
    return low * (high / low) ** np.random.default_rng(seed).random(count)


def deposits(energy, shares):
    """Energy in cells, (N, *shares.shape): `shares` of the mean shower, and fluctuations."""
    random = np.random.default_rng(len(energy))
    cells = random.gamma(2.0, 0.5, (len(energy), *shares.shape)) * shares / shares.sum()
    return (cells * energy.reshape(-1, *[1] * shares.ndim)).astype("f4")


def profile(layers, angles, rings):
    """Mean share of cells, (layers, angles, rings): early layers, one side of the axis and small radii have more."""
    depth = np.linspace(0.2, 5, layers) ** 2 * np.exp(-np.linspace(0.2, 5, layers))
    side = 1 + 0.8 * np.cos(2 * np.pi * (np.arange(angles) + 0.5) / angles) * (angles > 1)
    return np.einsum("z,a,r->zar", depth, side, np.exp(-6 * np.arange(rings) / rings))


def write_file(path, content):
    """Writes datasets by name; a name may have a group."""
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            file.create_dataset(name, data=values, compression="gzip")
    return str(path)


def write_challenge(path, layers, count=30, **more):
    """Showers of CaloChallenge of any binning, MeV."""
    energy = energies(count, 1e3, 1e6, seed=3)
    mean = [profile(1, angles, len(edges) - 1).ravel() for edges, angles in layers]
    heights = profile(len(layers), 1, 1).ravel()
    shares = np.concatenate([h * m / max(m.sum(), 1) for h, m in zip(heights, mean, strict=True)])
    cells = deposits(0.8 * energy, shares).astype("f8")
    return write_file(path, {"incident_energies": energy[:, None], "showers": cells} | more)


def write_calogan(path, count=20):
    """CaloGAN: three layers, MeV; energies in GeV."""
    energy = energies(count, 1, 100, seed=4)
    layers = {
        f"layer_{n}": deposits(1e3 * share * energy, profile(1, *cells)[0])
        for n, (cells, share) in enumerate([((3, 96), 0.1), ((12, 12), 0.7), ((12, 6), 0.02)])
    }
    more = {"energy": energy[:, None], "overflow": np.zeros((count, 3))}
    return write_file(path, layers | more)


def write_getting_high(path, count=20):
    """getting_high and BIB-AE: layers, x, y in MeV; energies in GeV."""
    energy = energies(count, 10, 100, seed=5).astype("f4")
    cells = deposits(20 * energy, profile(30, 30, 30))
    return write_file(path, {"30x30/layers": cells, "30x30/energy": energy[:, None]})


def write_par04(path, count=20):
    """Par04 and LEMURS: r, phi, z in MeV."""
    energy, random = energies(count, 1e3, 1e6, seed=6), np.random.default_rng(6)
    angles = {
        "incident_theta": random.uniform(0.9, 2.2, count),
        "incident_phi": random.uniform(-3, 3, count),
    }
    cells = deposits(0.9 * energy, profile(9, 8, 6)).transpose(0, 3, 2, 1)
    return write_file(path, {"showers": cells, "incident_energy": energy} | angles)


def _lcd(count, width):
    energy = energies(count, 10, 100, seed=7).astype("f4")
    line = np.exp(-np.abs(np.arange(width) - width // 2) / 1.5)
    shares = np.einsum("x,y,z->xyz", line, line, profile(25, 1, 1).ravel())
    return energy, deposits(0.02 * energy, shares)


def write_lcd_v1(path, count=20):
    """First files of LCD: 25 x 25 x 25 cells in GeV, the energy in `target`, one angle."""
    energy, cells = _lcd(count, 25)
    target = np.zeros((count, 1, 5))
    target[:, 0, 0], target[:, 0, 1] = 11, energy
    return write_file(path, {"ECAL": cells, "target": target})


def write_lcd_v2(path, count=20):
    """Files of LCD with variable angles: 51 x 51 x 25 cells in GeV*50."""
    energy, cells = _lcd(count, 51)
    theta = np.random.default_rng(8).uniform(1.1, 2.0, count).astype("f4")
    eta = -np.log(np.tan(theta / 2))
    content = {"ECAL": 50 * cells, "energy": energy, "theta": theta, "mtheta": theta, "eta": eta}
    return write_file(path, content | {"sum": 50 * cells.sum((1, 2, 3))})


def datasets(path):
    """Returns the content of a file by name."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda key, one: found.update({key: one[:]} if isinstance(one, h5py.Dataset) else {})
        )
    return found
