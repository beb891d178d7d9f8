"""Volumes as folders, and mount paths replaced by them."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from emulators.kubernetes.store import Store

Object = dict[str, Any]


class NotReady(Exception):
    """An object that a container needs does not exist yet; the kubelet tries again."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def claim_folder(root: Path, namespace: str, name: str) -> Path:
    """Returns the folder of a claim: it outlives pods."""
    return root / "claims" / namespace / name


def prepare(store: Store, pod: Object, root: Path) -> dict[str, Path]:
    """Returns a folder for each volume of a pod."""
    own, folders = pod["metadata"], {}
    for volume in pod["spec"].get("volumes") or []:
        name = volume["name"]
        folder = root / "pods" / own["uid"] / "volumes" / name
        if claim := volume.get("persistentVolumeClaim"):
            folder = claim_folder(root, own["namespace"], claim["claimName"])
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _fill(store, own["namespace"], volume, folder)
        except NotReady as error:
            text = f'MountVolume.SetUp failed for volume "{name}" : {error.message}'
            raise NotReady("FailedMount", text) from None
        folders[name] = folder
    return folders


def _fill(store: Store, namespace: str, volume: Object, folder: Path) -> None:
    if source := volume.get("configMap"):
        _write(store, ("configmaps", namespace, source["name"]), source, folder)
    elif source := volume.get("secret"):
        _write(store, ("secrets", namespace, source["secretName"]), source, folder)
    elif source := volume.get("projected"):
        for one in source.get("sources") or []:
            for field, plural in (("configMap", "configmaps"), ("secret", "secrets")):
                if field in one:
                    _write(store, (plural, namespace, one[field]["name"]), one[field], folder)
    elif not {"emptyDir", "persistentVolumeClaim"} & set(volume):
        raise NotReady("FailedMount", f"the test cluster has no volumes like {volume}")


def data_of(store: Store, plural: str, namespace: str, name: str) -> dict[str, bytes] | None:
    """Returns the entries of a ConfigMap or Secret; None: there is none."""
    found = store.find(plural, namespace, name)
    if found is None:
        return None
    data = found.get("data") or {}
    if plural == "secrets":
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary = found.get("binaryData") or {}
    decoded = {key: base64.b64decode(value) for key, value in binary.items()}
    return {key: value.encode() for key, value in data.items()} | decoded


def _write(store: Store, of: tuple[str, str, str], source: Object, folder: Path) -> None:
    plural, namespace, name = of
    data = data_of(store, plural, namespace, name)
    kind = plural.removesuffix("s")
    if data is None:
        if source.get("optional"):
            return
        raise NotReady("FailedMount", f'{kind} "{name}" not found')
    items = source.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] not in data:
            if source.get("optional"):
                continue
            raise NotReady("FailedMount", f"references non-existent {kind} key: {item['key']}")
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[item["key"]])
        mode = item.get("mode", source.get("defaultMode"))
        if mode is not None:
            path.chmod(mode | 0o200)  # to be written again when the kubelet tries again


def replacer(container: Object, folders: dict[str, Path]) -> Callable[[str], str]:
    """Returns a function that replaces a container's mount paths in a text by folders.

    A mount path counts where a path begins: not within a longer name, not within a URL's path.
    """
    places = {}
    for mount in container.get("volumeMounts") or []:
        folder = folders[mount["name"]] / mount.get("subPath", "")
        if not folder.exists():
            folder.mkdir(parents=True)
        places[mount["mountPath"].rstrip("/")] = str(folder)
    if not places:
        return lambda text: text
    longest_first = sorted(map(re.escape, places), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(longest_first)})(?![\w.-])")
    return lambda text: pattern.sub(lambda found: places[found[1]], text)
