"""`cloudgan doctor`: what exists in your clouds, who needs it, and what it costs per day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.account_flags import EVERY_CLOUD, account_flags, each_cloud
from cloudgan.cli.confirmation import confirm
from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError, CredentialsError, LeftBehindError

if TYPE_CHECKING:
    from cloudgan.auditing.survey import Survey, Surveyor
    from cloudgan.cli.launch_flags import Where
    from cloudgan.core.progress import Progress

Surveyed = tuple["Surveyor", "Survey"]


@with_flags(account=account_flags)
def doctor(
    *,
    store: str | None = None,
    delete: bool = False,
    yes: bool = False,
    json: bool = False,
    account: Where = EVERY_CLOUD,
) -> None:
    """Lists all that cloudgan ever made and that still exists, on every cloud you are logged in to.

    Each thing is matched with the runs that are meant to be, and shown with its cost per day and
    with the command that removes it. Ends with exit code 4 where something is left behind that no
    run needs, with 2 where no cloud could be asked. Things without cloudgan's labels are not seen.

    Args:
        store: Of runs that had one of their own; several are parted by commas.
        delete: Remove what is left behind, after a question; nothing that may be alive.
        yes: Do not ask.
        json: Print the result as JSON.
        account: Which clouds, from the flags that commands share.
    """
    from cloudgan.auditing.metadata_server import forget_unless_there
    from cloudgan.cli import doctor_view

    forget_unless_there()
    more = tuple(filter(None, (store or "").split(",")))
    found, refused = _surveys(account, more)
    report = doctor_view.report([survey for _, survey in found.values()], refused)
    if not json:
        doctor_view.show(report)
    if not found:
        told = "no cloud could be asked: `cloudgan check` says what each one needs"
        raise _ended(CredentialsError(told), report, json=json)
    if report["left"] and delete:
        what = f"{report['left']} thing{'' if report['left'] == 1 else 's'} that no run needs"
        confirm(f"Delete {what}? What is alive or unknown stays.", yes=yes)
        with shown_progress(as_json=json) as progress:
            gone = _clear(found, progress)
        surveys = [surveyor.survey(utc_moment()) for surveyor, _ in found.values()]
        report = doctor_view.report(surveys, refused) | {"gone": gone}
        if not json:
            print(f"{len(gone)} removed")
    if report["left"]:
        usd = doctor_view.told(report["usd_per_day_left"])
        hint = "" if delete else "; cloudgan doctor --delete removes them"
        told = f"{report['left']} left behind, for {usd} per day{hint}"
        raise _ended(LeftBehindError(told), report, json=json)
    if json:
        show_json(report)


def _ended(error: CloudganError, report: dict[str, Any], *, json: bool) -> CloudganError:
    if json:
        show_json(report)
    return shown_after(error, as_json=json)


def _surveys(account: Where, stores: tuple[str, ...]) -> tuple[dict[str, Surveyed], dict[str, str]]:
    """Of each cloud its survey, or why there is none."""
    from cloudgan.auditing.side_by_side import side_by_side

    asked = {str(said.provider): said for said in each_cloud(account)}
    answers = side_by_side(asked, lambda name: surveyed(asked[name], stores), most_seconds=600.0)
    found = {name: one for name, one in answers.items() if not isinstance(one, CloudganError)}
    refused = {name: str(one) for name, one in answers.items() if isinstance(one, CloudganError)}
    return found, refused


def surveyed(said: Where, stores: tuple[str, ...]) -> Surveyed:
    """Returns what looks through one account, and what it found.

    Raises:
        CloudganError: It cannot be asked.
    """
    from cloudgan.auditing.survey import Surveyor
    from cloudgan.cli.rented_place import account_place, known_stores, open_rented
    from cloudgan.providers.clouds import of_login, open_cloud
    from cloudgan.stores import open_store

    asked = account_place(said)
    cloud = open_cloud(asked)
    place = of_login(asked, cloud.identify())
    surveyor = Surveyor(
        cloud,
        place,
        opened=lambda where, store: open_rented(where, lambda _: None, store),
        open_store=open_store,
        stores=(*stores, *known_stores(place.provider)),
    )
    return surveyor, surveyor.survey(utc_moment())


def _clear(found: dict[str, Surveyed], progress: Progress) -> list[str]:
    from cloudgan.auditing.clearing import Clearer

    gone: list[str] = []
    for surveyor, survey in found.values():
        try:
            for what in Clearer(surveyor, progress.say).clear(survey, utc_moment()):
                progress.say(f"gone: {what}")
                gone.append(what)
        except LeftBehindError as error:
            progress.say(str(error))
    return gone
