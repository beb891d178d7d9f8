"""The server, which dispatches each request to its service."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import io
import re
import threading
from collections.abc import Iterator
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.loaders import Loader
from moto.moto_api._internal import moto_api_backend
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.wrappers import Request, Response

from emulators.aws.authorizations import authorizations
from emulators.aws.eks import Eks
from emulators.aws.iam_policies import Authorization, Document, is_allowed
from emulators.aws.lookups import Ec2, Quotas, Simulator
from emulators.aws.scaling import Scaling
from emulators.aws.schedules import Schedules
from emulators.aws.state import ACCOUNT, State
from emulators.aws.tokens import user_of
from emulators.aws.wire import Call, Refusal, answer, decoded, refused, scope
from emulators.faults import Faults
from emulators.kubernetes import Cluster

LOGIN = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "planted-secret"}
LOADER = Loader()  # reads the models of the services once, not for each session
MOTOS = ("iam", "s3", "sts")
DENIALS = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied", "s3": "AccessDenied"}
OWNER = "x-amz-expected-bucket-owner"
TAG = re.compile(r"<Tag><Key>(.*?)</Key><Value>(.*?)</Value></Tag>")


class _Quiet(MotoRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
        """Writes no log: the list of calls has the requests."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The time of the emulated account."""
        now = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=self.server.amazon.clock_minutes)  # type: ignore[attr-defined]
        return format_datetime(now, usegmt=True)


class Amazon:
    """An account on a port of loopback."""

    def __init__(self) -> None:
        self.state = State()
        self.faults = Faults()
        self.calls: list[tuple[str, str, str]] = []
        """Service, region and operation of each request, in order."""
        self.foreign_buckets: set[str] = set()
        self.policies: dict[str, bytes] = {}
        self.troubles: list[Exception] = []
        self.grants: list[Document] | None = None
        """Policies of the login; None: it may do everything."""
        self.authorized: list[Authorization] = []
        """The authorizations that the requests so far took."""
        self.clock_minutes = 0
        """By how much the clock of AWS is ahead of this machine's."""
        self.new_clusters_refuse: tuple[int, ...] = ()
        """Answers of a cluster's API server to its first requests after ACTIVE; 0: a cut connection.

        ACTIVE is reported before the endpoint processes requests
        (https://github.com/aws/containers-roadmap/issues/654), and access entries are eventually
        consistent (https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html, both read
        2026-11-22).
        """
        self._sessions = 0
        self._scaling = Scaling(self.state)
        self._eks = Eks(self.state, self._scaling)
        self._schedules = Schedules(self.state, self._eks)
        self._answers = {
            "autoscaling": self._scaling,
            "ec2": Ec2(self.state),
            "eks": self._eks,
            "scheduler": self._schedules,
            "servicequotas": Quotas(self.state),
        }
        self._simulator = Simulator(self.state, lambda: self.grants)

    def start(self) -> None:
        _port().amazon = self  # type: ignore[attr-defined]
        self.reset()

    def reset(self) -> None:
        """Deletes all resources."""
        self.state.planes.clear()
        self.state.ends.clear()
        for network in self.state.networks.values():
            network.templates.clear()
            network.reservations.clear()
        self.policies.clear()
        self.calls.clear()
        self.authorized.clear()
        moto_api_backend.reset()

    def stop(self) -> None:
        """Keeps the port, which refuses requests until the next account."""
        _port().amazon = None  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{_port().server_port}"

    @property
    def operations(self) -> list[str]:
        return [operation for _, _, operation in self.calls]

    def session(self) -> Any:
        """A session whose clients send to this server; each session of this account has its own clients."""
        self._sessions += 1
        return _session(self._sessions)

    def fault(
        self,
        operation: str,
        code: str,
        message: str = "refused by a test",
        *,
        status: int = 400,
        **how: Any,
    ) -> None:
        """Plans an error of the next requests for an operation; `how` is of `Fault`."""
        self.faults.plan(f"^{operation}$", Refusal(code, message, status), **how)

    def pass_time(self, seconds: float) -> None:
        with self.state.lock:
            self._scaling.pass_time(seconds)
            self._schedules.pass_time(seconds)

    def tie(self, cluster: Cluster, name: str = "cloudgan") -> None:
        """Uses a test cluster for all EKS clusters: each machine is a node of it while it runs."""

        self._scaling.nodes.cluster = cluster
        cluster.trust(lambda token: user_of(token, LOGIN, name))

        def refuses() -> None:
            for code in self.new_clusters_refuse:
                cluster.answer(code, path=" /api")

        self._eks.became_active = refuses

    def app(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        body = request.get_data(cache=True)
        service, _ = scope(request.headers)
        if service not in {*self._answers, *MOTOS}:
            return self._to_moto(request)(environ, start_response)
        query = environ.get("QUERY_STRING", "")
        # The ARN in a path of EventBridge Scheduler has an encoded slash.
        raw = environ["RAW_URI"].partition("?")[0] if service == "scheduler" else request.path
        call = decoded(request.method, raw, query, request.headers, body)
        try:
            made = self._answer(call, request)
        except Refusal as refusal:
            made = refused(call, refusal)
        except Exception as error:  # reported when the server ends
            self.troubles.append(error)
            raise
        return made(environ, start_response)

    def _answer(self, call: Call, request: Request) -> Response:
        if call.region in self.state.closed and call.service == "eks":
            raise Refusal(self.state.closed[call.region], "closed by the organisation", 403)
        self._authorize(call, request)
        self.calls.append((call.service, call.region, call.operation))
        fault = self.faults.meet(call.operation)
        if fault and not fault.acts:
            raise fault.error
        made = self._acted(call, request)
        if fault:
            raise fault.error
        return made

    def _authorize(self, call: Call, request: Request) -> None:
        """Refuses what the policies of the login do not allow."""
        bucket = request.path.split("/")[1] if call.service == "s3" else ""
        owner = "another" if bucket in self.foreign_buckets else ACCOUNT
        tags = dict(TAG.findall(request.get_data(cache=True).decode(errors="replace")))
        with self.state.lock:
            asked = authorizations(call, self.state, request.path, tags, owner)
        self.authorized += asked
        for one in asked:
            if self.grants is not None and not is_allowed(self.grants, one):
                code = DENIALS.get(call.service, "AccessDeniedException")
                text = f"not authorized to perform: {one.action} on resource: {one.resource}"
                raise Refusal(code, text, 403)

    def _acted(self, call: Call, request: Request) -> Response:
        if call.service in self._answers or call.operation == "SimulatePrincipalPolicy":
            part = self._answers.get(call.service, self._simulator)
            with self.state.lock:
                return answer(call, part.answer(call))
        bucket = request.path.split("/")[1] if call.service == "s3" else ""
        owner = "another" if bucket in self.foreign_buckets else ACCOUNT
        if request.headers.get(OWNER, owner) != owner:
            raise Refusal("AccessDenied", "Access Denied", 403)
        if call.operation in ("PutBucketPolicy", "GetBucketPolicy"):
            return self._policy(call, bucket, request)
        made = self._to_moto(request)
        tags = dict(TAG.findall(request.get_data(cache=True).decode(errors="replace")))
        if call.operation == "CreateBucket" and made.status_code == 200 and tags:
            from moto.s3.models import s3_backends

            s3_backends[ACCOUNT]["aws"].put_bucket_tagging(bucket, tags)
        return made

    def _policy(self, call: Call, bucket: str, request: Request) -> Response:
        """moto would apply a policy without its conditions, and so refuse everything."""
        if call.operation == "PutBucketPolicy":
            self.policies[bucket] = request.get_data(cache=True)
            return Response(status=204)
        if bucket not in self.policies:
            raise Refusal("NoSuchBucketPolicy", "The bucket policy does not exist", 404)
        return Response(self.policies[bucket], content_type="application/json")

    def _to_moto(self, request: Request) -> Response:
        body = request.get_data(cache=True)
        if b"Action=ListAttachedRolePolicies&" in body:
            body += b"&MaxItems=1"  # "might return fewer", see Simulator
        environ = request.environ | {"CONTENT_LENGTH": str(len(body))}
        environ["wsgi.input"] = io.BytesIO(body)
        return Response.from_app(_moto(), environ, buffered=True)


@functools.cache
def _moto() -> DomainDispatcherApplication:
    """moto keeps its state in modules; the applications that read it are built once."""
    made = DomainDispatcherApplication(create_backend_app)
    # It lists the folder of its modules for each request.
    made.get_backend_for_host = functools.cache(made.get_backend_for_host)  # type: ignore[method-assign]
    return made


@functools.cache
def _port() -> BaseWSGIServer:
    """The one server of this process; it serves one account at a time."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        if server.amazon is None:  # type: ignore[attr-defined]
            return Response(status=503)(environ, start_response)
        return server.amazon.app(environ, start_response)  # type: ignore[attr-defined]

    server = make_server("127.0.0.1", 0, app, True, request_handler=_Quiet)
    server.amazon = None  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@functools.cache
def _session(number: int) -> _Session:
    """The `number`-th session of an account, which the next account has again.

    Creating a client takes 20 to 200 ms of processor time.
    """
    import boto3
    import botocore.session

    inner = botocore.session.Session()
    inner.register_component("data_loader", LOADER)
    session = boto3.Session(**LOGIN, region_name="us-east-1", botocore_session=inner)
    return _Session(session, f"http://127.0.0.1:{_port().server_port}")


class _Session:
    """boto3's session, with an endpoint of its own for every client; it creates each client once."""

    def __init__(self, session: Any, url: str) -> None:
        self._session, self._url = session, url
        self._clients: dict[tuple[str, str | None, str], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def client(self, service: str, region_name: str | None = None, **keywords: Any) -> Any:
        which = service, region_name, str(getattr(keywords.get("config"), "retries", None))
        if which not in self._clients:
            keywords |= {"region_name": region_name, "endpoint_url": self._url}
            self._clients[which] = self._session.client(service, **keywords)
        return self._clients[which]


@contextlib.contextmanager
def amazon() -> Iterator[Amazon]:
    """Runs an empty account; the pauses of its clients between two attempts take no time."""
    made = Amazon()
    made.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
            yield made
    finally:
        made.stop()
    if made.troubles:
        raise made.troubles[0]
