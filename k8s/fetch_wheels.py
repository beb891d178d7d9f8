"""Downloads the wheels in wheels.txt from the run's store and installs them into a folder.

The init container of each pod runs this file in a public image without cloudgan. It needs
only the standard library of Python 3.8 and later, and pip. Exit codes: 0; 75 if a retry
may help (no connection, a failing server, a denied login, a full disk); else 1.

Denied logins, and an identity that is not known yet or whose service fails or is not reachable, are
retried for 5 minutes, and again by the next pod: permissions granted just before take effect after 2 to
7 minutes (https://cloud.google.com/iam/docs/access-change-propagation, of 2025-10-16, read 2026-11-22),
and a pod that was started without an identity never gets one
(https://github.com/aws/eks-pod-identity-agent/issues/153, read 2026-11-25).
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import datetime as dt
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

THREADS = 8
ATTEMPTS = 6
DENIED_SECONDS = 300
TIMEOUT_SECONDS = 30
MAX_BACKOFF_SECONDS = 60
MOST_TEXT_BYTES = 1 << 20
MISSING = 404
DENIED = (401, 403)
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
BROKEN = (OSError, http.client.HTTPException)
OCTET_STRING, LONG_FORM = 4, 128  # DER encoding of keys
AWS_ROLE = "http://169.254.169.254/latest/meta-data/iam/security-credentials/"


class Redirects(urllib.request.HTTPRedirectHandler):
    """Sends no login, token or signature to another host than the one that was asked."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # noqa: PLR0917
        """Returns the redirected request; None: the redirect is an error."""
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if (old.scheme, old.netloc) == (new.scheme, new.netloc):
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        if (old.scheme, new.scheme) == ("https", "http") or "x-amz-bucket-region" in headers:
            return None  # S3 names its region, which needs another signature
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None:
            found.headers.clear()  # a login, and headers such as x-amz-security-token
            found.unredirected_hdrs.clear()
        return found


OPENER = urllib.request.build_opener(Redirects)
# Metadata services are on the node: no proxy.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), Redirects)


class PermanentError(Exception):
    """An error that a retry cannot fix."""

    exit_code = 1


class TryAgainError(Exception):
    """The network, a server or the disk failed; a retry in another pod may succeed."""

    exit_code = 75


class NoCredentialsError(OSError):
    """No credentials; the identity of a new pod may take seconds to be ready."""


class Wheel:
    """A line of wheels.txt: file name, SHA-256 and size."""

    def __init__(self, line):
        try:
            self.name, self.sha256, size = line.split()
            self.size = int(size)
            self.project, self.version, *_, self.python, self.abi, _ = self.name[:-4].split("-")
        except ValueError:
            raise PermanentError(
                f"wheels.txt: {line!r} is not of the form NAME.whl SHA256 BYTES"
            ) from None
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.whl", self.name):
            raise PermanentError(f"wheels.txt: {self.name!r} is not a wheel's name")
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise PermanentError(f"wheels.txt: {self.name} has an invalid SHA-256 {self.sha256!r}")

    @property
    def requirement(self):
        """The line of requirements.txt for exactly this file."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}\n"


def variable(name):
    """Returns an environment variable; None if it is missing or empty."""
    return os.environ.get(name) or None


def request_text(address, data=None, headers=None, method=None, timeout=5):
    """Returns the response of a metadata or token server as text."""
    request = urllib.request.Request(address, data, headers or {}, method=method)
    is_local = urllib.parse.urlsplit(address).scheme == "http"
    opener = DIRECT if is_local else OPENER
    try:
        with opener.open(request, timeout=timeout) as answer:
            return answer.read(MOST_TEXT_BYTES).decode()
    except BROKEN as error:
        host = urllib.parse.urlsplit(address).netloc
        raise NoCredentialsError(f"no credentials from {host} ({reason(error)})") from None


class Folder:
    """A store in a local folder, such as the mount path of a claim."""

    def __init__(self, url):
        is_url = url.startswith("file:")
        self.path = urllib.parse.unquote(urllib.parse.urlsplit(url).path) if is_url else url

    def open(self, key):
        """Opens an object."""
        return Path(self.path, key).open("rb")

    def clear_credentials(self):
        """Does nothing: a folder needs no credentials."""


class Bucket:
    """Base of the three clouds' stores: URL and headers of an object."""

    def __init__(self, url):
        self.lock, self.kept = threading.Lock(), None
        parts = urllib.parse.urlsplit(url)
        self.host = parts.netloc
        self.prefix = [part for part in urllib.parse.unquote(parts.path).split("/") if part]

    def key(self, name):
        """Returns the URL-encoded key of an object."""
        return urllib.parse.quote("/".join([*self.prefix, name]), safe="/~")

    def open(self, name):
        """Opens an object."""
        return OPENER.open(self.request(name), timeout=TIMEOUT_SECONDS)

    def once(self, log_in):
        """Returns the credentials, which the first thread obtains with `log_in`."""
        with self.lock:
            self.kept = self.kept or log_in()
            return self.kept

    def clear_credentials(self):
        """Clears the cached credentials."""
        self.kept = None


class Google(Bucket):
    """gs://BUCKET/prefix, with a key file, or as the pod's service account."""

    role = "roles/storage.objectViewer on the bucket"

    def request(self, name):
        """Returns the request for an object."""
        emulator = variable("STORAGE_EMULATOR_HOST")
        here = emulator or "https://storage.googleapis.com"
        here = here if "://" in here else "http://" + here
        key = self.key(name).replace("/", "%2F")
        address = f"{here.rstrip('/')}/storage/v1/b/{self.host}/o/{key}?alt=media"
        headers = {} if emulator else {"Authorization": "Bearer " + self.once(self.token)}
        return urllib.request.Request(address, headers=headers)

    def token(self):
        """Returns an access token of the key file, or of the metadata server."""
        key_file = variable("GOOGLE_APPLICATION_CREDENTIALS")
        if key_file:
            return self.token_of(json.loads(Path(key_file).read_text(encoding="utf-8")))
        host = variable("GCE_METADATA_HOST") or "metadata.google.internal"
        address = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
        return json.loads(request_text(address, headers={"Metadata-Flavor": "Google"}))[
            "access_token"
        ]

    def token_of(self, login):
        """Exchanges a service account's key for a token."""
        if login.get("type") != "service_account":
            raise PermanentError(
                f"GOOGLE_APPLICATION_CREDENTIALS has type {login.get('type')!r};"
                " use the key of a service_account, or the node's identity without a key"
            )
        now = int(time.time())
        claim = {
            "iss": login["client_email"],
            "aud": login["token_uri"],
            "scope": "https://www.googleapis.com/auth/devstorage.read_only",
            "iat": now,
            "exp": now + 600,
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": login.get("private_key_id", "")}
        payload = b".".join(url_safe(json.dumps(part).encode()) for part in (head, claim))
        grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        signed = payload + b"." + url_safe(rs256(login["private_key"], payload))
        form = urllib.parse.urlencode({"grant_type": grant, "assertion": signed.decode()})
        return json.loads(request_text(login["token_uri"], form.encode(), timeout=30))[
            "access_token"
        ]


def url_safe(content):
    """Returns base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def rs256(pem, message):
    """Signs with an RSA key (PKCS #8, PKCS #1 v1.5, SHA-256); the image has no library for it."""
    der = base64.b64decode("".join(pem.strip().splitlines()[1:-1]))
    fields = numbers(
        next(value for tag, value in elements(elements_in(der)) if tag == OCTET_STRING)
    )
    modulus, exponent = fields[1], fields[3]
    size = (modulus.bit_length() + 7) // 8
    prefix = bytes.fromhex("3031300d060960864801650304020105000420")
    digest = prefix + hashlib.sha256(message).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def elements(content):
    """Yields tag and content of each DER element."""
    at = 0
    while at < len(content):
        tag, size = content[at], content[at + 1]
        at += 2
        if size > LONG_FORM:
            long = size - LONG_FORM
            size = int.from_bytes(content[at : at + long], "big")
            at += long
        yield tag, content[at : at + size]
        at += size


def elements_in(content):
    """Returns the content of the first element."""
    return next(elements(content))[1]


def numbers(content):
    """Returns the integers of a DER sequence."""
    return [int.from_bytes(value, "big") for _, value in elements(elements_in(content))]


class Amazon(Bucket):
    """s3://BUCKET/prefix, with credentials of the environment, EKS or the node."""

    role = "s3:GetObject on the bucket's objects"

    def __init__(self, url):
        super().__init__(url)
        self.region = variable("AWS_REGION") or variable("AWS_DEFAULT_REGION") or "us-east-1"

    def request(self, name):
        """Returns the signed request for an object."""
        own = variable("AWS_ENDPOINT_URL_S3") or variable("AWS_ENDPOINT_URL")
        if own or "." in self.host:  # the certificate for *.s3 covers no name with a dot
            here = (own or f"https://s3.{self.region}.amazonaws.com").rstrip("/") + "/" + self.host
        else:
            here = f"https://{self.host}.s3.{self.region}.amazonaws.com"
        return self.signed(f"{here}/{self.key(name)}", *self.once(self.login))

    def open(self, name):
        """Retries in the bucket's region if S3 names it."""
        try:
            return super().open(name)
        except urllib.error.HTTPError as error:
            region = error.headers.get("x-amz-bucket-region")
            if error.code not in (301, 307, 400) or region in (None, self.region):
                raise
            self.region = region
            return super().open(name)

    def signed(self, address, key, secret, token):
        """Signs a GET with AWS Signature Version 4."""
        now = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        parts = urllib.parse.urlsplit(address)
        headers = {"host": parts.netloc, "x-amz-content-sha256": empty, "x-amz-date": now}
        if token:
            headers["x-amz-security-token"] = token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        canonical = f"GET\n{parts.path}\n\n{lines}\n{names}\n{empty}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = ("AWS4" + secret).encode()
        for part in (*scope.split("/"), text):
            signature = hmac.new(signature, part.encode(), hashlib.sha256).digest()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names},"
            f" Signature={signature.hex()}"
        )
        del headers["host"]
        return urllib.request.Request(address, headers=headers)

    def login(self):
        """Returns key, secret and session token: from the environment, EKS, or the node's role."""
        if variable("AWS_ACCESS_KEY_ID"):
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            return tuple(variable(name) or "" for name in names)
        if variable("AWS_WEB_IDENTITY_TOKEN_FILE") and variable("AWS_ROLE_ARN"):
            return self.login_of_token()
        where = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        if relative:
            where = "http://169.254.170.2" + relative
        if where:
            file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
            token = Path(file).read_text().strip() if file else None
            token = token or variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
            return login_in(request_text(where, headers={"Authorization": token} if token else {}))
        return self.login_of_node()

    def login_of_token(self):
        """Exchanges the pod's service account token at STS."""
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": variable("AWS_ROLE_ARN"),
            "RoleSessionName": "cloudgan",
            "WebIdentityToken": Path(variable("AWS_WEB_IDENTITY_TOKEN_FILE")).read_text().strip(),
        }
        own = variable("AWS_ENDPOINT_URL_STS") or variable("AWS_ENDPOINT_URL")
        here = own or f"https://sts.{self.region}.amazonaws.com"
        answer = ET.fromstring(
            request_text(here, urllib.parse.urlencode(form).encode(), timeout=30)
        )
        found = {element.tag.rpartition("}")[2]: element.text for element in answer.iter()}
        return found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]

    def login_of_node(self):
        """Returns credentials of the instance metadata service, version 2."""
        if (variable("AWS_EC2_METADATA_DISABLED") or "").lower() == "true":
            raise PermanentError(
                "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in a secret, or"
                " attach a role to the pod's service account"
            )
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": "600"}
        root = AWS_ROLE.partition("/meta-data")[0]
        token = request_text(f"{root}/api/token", headers=headers, method="PUT")
        headers = {"X-aws-ec2-metadata-token": token}
        name = request_text(AWS_ROLE, headers=headers).split()[0]
        return login_in(request_text(AWS_ROLE + name, headers=headers))


def login_in(text):
    """Parses key, secret and token in a response of AWS."""
    found = json.loads(text)
    return found["AccessKeyId"], found["SecretAccessKey"], found["Token"]


class Azure(Bucket):
    """https://ACCOUNT.blob.core.windows.net/CONTAINER/prefix, by SAS token, key or identity."""

    role = "the role Storage Blob Data Reader on the container"

    def __init__(self, url):
        super().__init__(url)
        self.here = f"{urllib.parse.urlsplit(url).scheme}://{self.host}"

    def request(self, name):
        """Returns the request for a blob."""
        address = f"{self.here}/{self.key(name)}"
        sas = variable("AZURE_STORAGE_SAS_TOKEN")
        if sas:
            return urllib.request.Request(f"{address}?{sas.lstrip('?')}")
        headers = {
            "x-ms-date": dt.datetime.now(dt.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "x-ms-version": "2021-08-06",
        }
        key = variable("AZURE_STORAGE_KEY")
        headers["Authorization"] = (
            self.signature(name, headers, key) if key else self.once(self.token)
        )
        return urllib.request.Request(address, headers=headers)

    def signature(self, name, headers, key):
        """Signs a GET with the account's key."""
        account = self.prefix[0] if self.here.startswith("http:") else self.host.partition(".")[0]
        lines = "".join(f"{header}:{headers[header]}\n" for header in sorted(headers))
        text = "GET" + "\n" * 12 + f"{lines}/{account}/{self.key(name)}"
        digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
        return f"SharedKey {account}:{base64.b64encode(digest).decode()}"

    def token(self):
        """Returns a token of the pod's workload identity, or of the node's managed identity."""
        file, client = variable("AZURE_FEDERATED_TOKEN_FILE"), variable("AZURE_CLIENT_ID")
        if file:
            form = {
                "grant_type": "client_credentials",
                "client_id": client or "",
                "scope": "https://storage.azure.com/.default",
                "client_assertion": Path(file).read_text().strip(),
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            }
            login = variable("AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com"
            address = f"{login.rstrip('/')}/{variable('AZURE_TENANT_ID')}/oauth2/v2.0/token"
            answer = request_text(address, urllib.parse.urlencode(form).encode(), timeout=30)
        else:
            query = {"api-version": "2018-02-01", "resource": "https://storage.azure.com/"}
            query.update({"client_id": client} if client else {})
            identity = "http://169.254.169.254/metadata/identity/oauth2/token?"
            address = identity + urllib.parse.urlencode(query)
            answer = request_text(address, headers={"Metadata": "true"})
        return "Bearer " + json.loads(answer)["access_token"]


def store_of(url):
    """Returns the store of a URL."""
    kinds = {"gs": Google, "s3": Amazon, "https": Azure, "http": Azure, "file": Folder}
    scheme, colon, _ = url.partition("://")
    if not url or (colon and scheme not in kinds):
        raise PermanentError(
            f"CLOUDGAN_STORE is {url!r}; valid: a folder, gs://, s3:// or https://"
        )
    return kinds[scheme](url) if colon else Folder(url)


class Failures:
    """Failures of one download: their number, and since when the login is denied."""

    def __init__(self):
        self.count = self.denied = 0
        self.denied_since = None


class Fetcher:
    """Downloads wheels from a store with retries."""

    def __init__(self, store, folder, backoff_seconds, denied_seconds):
        self.store, self.folder, self.backoff_seconds = store, folder, backoff_seconds
        self.denied_seconds = denied_seconds
        self.stopped = threading.Event()

    def fetch_all(self, wheels):
        """Downloads in several threads; the first permanent error stops all."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            running = [pool.submit(self.fetch, wheel) for wheel in wheels]
            try:
                for done in concurrent.futures.as_completed(running):
                    done.result()
            finally:
                self.stopped.set()

    def fetch(self, wheel):
        """Downloads one wheel unless it is there."""
        path = self.folder / wheel.name
        if path.exists() and sha256_of(path) == wheel.sha256:
            return
        where, failures = f"wheels/{wheel.sha256}/{wheel.name}", Failures()
        while not self.stopped.is_set():
            try:
                self.copy(where, path, wheel)
            except BROKEN as error:
                pause = self.pause(where, error, failures)
                print(f"{where}: {reason(error)}; retrying", flush=True)
                self.stopped.wait(pause)
            else:
                return

    def pause(self, where, error, failures):
        """Returns the backoff after an error; raises if a retry cannot help."""
        code = getattr(error, "code", None)
        if isinstance(error, FileNotFoundError) or code == MISSING:
            raise PermanentError(
                f"{where} is not in the store; rerun `cloudgan deploy`, which uploads it"
            ) from None
        self.store.clear_credentials()
        if code in DENIED or isinstance(error, NoCredentialsError):
            return self.pause_denied(where, error, failures)
        failures.count += 1
        if isinstance(code, int) and code not in TRANSIENT:
            raise PermanentError(f"{where}: {reason(error)}") from None
        if failures.count == ATTEMPTS:
            raise TryAgainError(f"{where}: {reason(error)}, {ATTEMPTS} times") from None
        wait = getattr(error, "headers", None) and error.headers.get("Retry-After")
        wait = int(wait) if wait and wait.isdigit() else 0
        return min(max(self.backoff(failures.count - 1), wait), MAX_BACKOFF_SECONDS)

    def pause_denied(self, where, error, failures):
        """Returns the backoff after a denied or missing login; raises after `denied_seconds`."""
        now = time.monotonic()
        if failures.denied_since is None:
            failures.denied_since = now
        left = failures.denied_since + self.denied_seconds - now
        if left <= 0:
            raise TryAgainError(
                f"{where}: no access for {self.denied_seconds:.0f} s ({reason(error)}); the pod"
                f" needs {self.store.role}. New permissions take effect within minutes"
            ) from None
        failures.denied += 1
        return min(self.backoff(failures.denied - 1), MAX_BACKOFF_SECONDS, left)

    def backoff(self, earlier):
        """Returns a pause that doubles with each earlier failure, with jitter."""
        return self.backoff_seconds * 2 ** min(earlier, 10) * random.uniform(0.5, 1)

    def copy(self, where, path, wheel):
        """Downloads an object to a file, which appears only with the expected checksum."""
        temporary = path.with_name(path.name + ".tmp")
        digest, size = hashlib.sha256(), 0
        with self.store.open(where) as source, temporary.open("wb") as file:
            for block in iter(lambda: source.read(1 << 18), b""):
                digest.update(block)
                size += len(block)
                if size > wheel.size:
                    break
                file.write(block)
            length = int(getattr(source, "headers", {}).get("Content-Length") or size)
        if size > wheel.size:
            temporary.unlink()
            raise PermanentError(
                f"{where}: expected {wheel.size} bytes, found more; remove it from the store and"
                " deploy again"
            )
        if size < length:
            raise http.client.IncompleteRead(b"", length - size)
        if digest.hexdigest() != wheel.sha256:
            raise PermanentError(
                f"{where}: expected SHA-256 {wheel.sha256} and {wheel.size} bytes, found"
                f" {digest.hexdigest()} and {size} bytes; remove it from the store and deploy again"
            )
        temporary.replace(path)


def sha256_of(path):
    """Returns the checksum of a file, in blocks: a wheel for GPUs is larger than a pod's memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 18), b""):
            digest.update(block)
    return digest.hexdigest()


def reason(error):
    """Describes an error without its URL, which may contain a token."""
    if isinstance(error, urllib.error.HTTPError):
        found = re.search(rb"<Code>\w+(?=</Code>)|\bAADSTS\d+", error.read(4000))
        why = found.group().decode().replace("<Code>", "") if found else error.reason
        return f"HTTP {error.code} {why}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was cut"
    return str(getattr(error, "reason", None) or error) or type(error).__name__


def install(wheels, folder, site):
    """Installs the wheels of `folder` into `site` with pip, without an index."""
    here = "cp{}{}".format(*sys.version_info)
    incompatible = [
        w for w in wheels if w.python.startswith("cp") and w.abi not in (here, "abi3", "none")
    ]
    if incompatible:
        raise PermanentError(
            f"{incompatible[0].name} is for another Python than this image's, {here}; use an image with"
            " the Python of the plan, or plan again"
        )
    listed = folder / "requirements.txt"
    listed.write_text("".join(wheel.requirement for wheel in wheels), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--upgrade"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--root-user-action=ignore"]
    command += ["--no-index", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--no-compile"]  # compiling doubles the time, and most modules are not imported
    command += ["--find-links", str(folder), "--target", str(site), "--requirement", str(listed)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment["PIP_CONFIG_FILE"] = os.devnull
    # pip unpacks into a temporary folder and moves the result: within one volume that copies nothing.
    site.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site) as unpacked:
        environment["TMPDIR"] = unpacked
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip()
        kind = TryAgainError if "No space left" in output else PermanentError
        raise kind(f"pip could not install the wheels into {site}:\n{output}")
    for wheel in wheels:
        install_libraries(folder / wheel.name, site)


def install_libraries(wheel, site):
    """Copies the shared libraries of a wheel into lib/, which pip leaves out with --target.

    MPICH's wheel has them among its data files. pip takes this folder for the one of Python modules
    (`_handle_target_dir` in pip/_internal/commands/install.py, version 23.2.1, read 2026-11-23).
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            top, _, path = name.partition(".data/data/lib/")
            if path and not path.endswith("/") and "/" not in top and ".." not in path.split("/"):
                target = site / "lib" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)


def run(arguments):
    """Downloads and installs the wheels; prints one line."""
    parser = argparse.ArgumentParser(description="Installs wheels of the run's store.")
    for name in ("wheels", "site", "folder"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--backoff-seconds", type=float, default=1.0)
    parser.add_argument("--denied-seconds", type=float, default=DENIED_SECONDS)
    options = parser.parse_args(arguments)
    began = time.monotonic()
    lines = options.wheels.read_text(encoding="utf-8").splitlines()
    wheels = [Wheel(line) for line in lines if line.strip()]
    store = store_of(variable("CLOUDGAN_STORE") or "")
    options.folder.mkdir(parents=True, exist_ok=True)
    waits = options.backoff_seconds, options.denied_seconds
    Fetcher(store, options.folder, *waits).fetch_all(wheels)
    fetched = time.monotonic()
    install(wheels, options.folder, options.site)
    installed = time.monotonic()
    shutil.rmtree(options.folder)
    size = sum(wheel.size for wheel in wheels)
    write_timings(options.site, len(wheels), size, fetched - began, installed - fetched)
    summary = f"{len(wheels)} wheels, {size / 1e6:.1f} MB"
    seconds = f"downloaded in {fetched - began:.1f} s, installed in {installed - fetched:.1f} s"
    print(f"{summary}: {seconds}", flush=True)


def write_timings(site, count, size, fetch_seconds, install_seconds):
    """Writes the durations (cloudgan/schema/provenance.py reads it)."""
    values = {
        "time": dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "wheels": count,
        "bytes": size,
        "fetch_seconds": round(fetch_seconds, 3),
        "install_seconds": round(install_seconds, 3),
    }
    (site / "cloudgan-wheels.json").write_text(json.dumps(values) + "\n", encoding="utf-8")


def main(arguments=None):
    """Runs; prints an error and returns the exit code."""
    try:
        run(arguments)
    except (PermanentError, TryAgainError) as error:
        print(f"fetch_wheels: {error}", file=sys.stderr)
        return error.exit_code
    except (OSError, http.client.HTTPException) as error:
        print(f"fetch_wheels: {reason(error)}", file=sys.stderr)
        return TryAgainError.exit_code
    except (KeyError, ValueError) as error:
        print(f"fetch_wheels: unexpected response: {error}", file=sys.stderr)
        return PermanentError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
