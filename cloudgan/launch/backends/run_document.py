"""Documents of a named run, which are checked against the request before they are used.

Plans, desired states and launch logs are in folders, buckets and ConfigMaps, where other users and
the pods of the run may write. A command acts on what a document names, so the document must name the
run, the store and the account that were requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cloudgan.core.errors import ConfigError
from cloudgan.core.labels import OWNER, RUN, SPEC
from cloudgan.core.local_path import local_path
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import Plan

_PLACEHOLDER = re.compile(r"<[a-z-]+>")


class ForeignDocumentError(ConfigError):
    """A document names another run, store or account than the request; nothing was changed."""


@dataclass(frozen=True)
class RunSource:
    """Where a document was found, and what it must name.

    Attributes:
        place: File, object or ConfigMap.
        store: URL of the store that has the document; None: it is not in the run's store.
        provider: The requested provider; None: any.
        account: The requested account; None, or a placeholder: any.
        labels: Labels of the object that has the document.
    """

    place: str
    run: str
    store: str | None = None
    provider: str | None = None
    account: str | None = None
    labels: Mapping[str, str] | None = None

    def checked_plan(self, found: Plan) -> Plan:
        """Returns a plan if it names what was requested.

        Raises:
            ForeignDocumentError: It does not.
        """
        for what, named, requested in self._pairs(found):
            if named != requested:
                raise self._foreign(what, named, requested)
        return found

    def checked_launch(self, found: Launch) -> Launch:
        """Returns a launch.json if it is of the requested run."""
        if found.run != self.run:
            raise self._foreign("run", found.run, self.run)
        return found

    def _pairs(self, found: Plan) -> Iterator[tuple[str, str | None, str | None]]:
        yield "run", found.run, self.run
        yield "run in its configuration", found.config.name, self.run
        if self.store is not None:
            yield "store", store_address(found.store), store_address(self.store)
        if self.provider is not None:
            yield "provider", found.target.provider, self.provider
        if self.account is not None and not _PLACEHOLDER.fullmatch(self.account):
            yield "account", found.target.account, self.account
        if self.labels is not None:
            expected = found.labels().as_dict()
            for name in (RUN, OWNER, SPEC):
                yield f"label {name}", expected[name], self.labels.get(name)

    def _foreign(self, what: str, named: str | None, requested: str | None) -> ForeignDocumentError:
        return ForeignDocumentError(
            f"{self.place}: {what} is {named!r}, but {requested!r} was requested for run {self.run};"
            " nothing was changed. Restore the document, or move it away and find the run by"
            " --provider"
        )


def read_plan(path: Path, run: str) -> Plan:
    """Reads the plan.json of a run."""
    return RunSource(str(path), run).checked_plan(plans.read(path))


def read_launch(path: Path, run: str) -> Launch:
    """Reads the launch.json of a run."""
    return RunSource(str(path), run).checked_launch(launch.read(path))


def check_inside(path: Path, folder: Path) -> None:
    """Checks that a path of a run is inside its folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ForeignDocumentError(
            f"{path}: a symbolic link to {path.resolve()}, which is outside of the run's folder;"
            " nothing was changed. Replace the link by what it points to"
        )


def store_address(url: str) -> str:
    """Returns the URL of a store, or its folder, in one form for comparisons."""
    if "://" in url and not url.startswith("file:"):
        parts = urlsplit(url)
        path = "/".join(part for part in unquote(parts.path).split("/") if part)
        return f"{parts.scheme}://{parts.netloc}/{path}".rstrip("/")
    if url.startswith("file:"):
        url = unquote(urlsplit(url).path)
    return str(local_path(url).resolve())
