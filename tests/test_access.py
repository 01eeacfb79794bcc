"""Who may do what, by tokens of another issuer: real clients, a real https server with keys, real signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from clients import SYSTEM_PYTHON, Outcome, need, run
from conftest import SMALL, clean_up
from facility import Facility
from issuer import AUDIENCE, Issuer, part, text_of

Refusal = Callable[[Issuer], str]

RIGHTS = ("read", "create", "modify", "stage")


def table(issuer: Issuer, **changes: object) -> str:
    """Write the issuer into a configuration."""
    keys: dict[str, object] = {
        "url": issuer.url,
        "audiences": [AUDIENCE],
        "base_path": "/vo",
        "user": "vo",
        "ca": str(issuer.ca),
        **changes,
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    groups = '"/vo/prod" = "prod"\n"/vo" = "members"\n'
    return f'\n[[issuers]]\n{lines}\n[issuers.users]\nsubject-ann = "ann"\n\n[issuers.groups]\n{groups}'


def believe(facility: Facility, text: str) -> None:
    """Add an issuer to the configuration; it is on this host."""
    facility.reach_this_host()
    file = facility.directory / "facility.toml"
    file.write_text(file.read_text() + text)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """Run an issuer."""
    need("openssl")
    one = Issuer(tmp_path_factory.mktemp("issuer") / "issuer")
    yield one
    one.close()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Facility]:
    """Start a facility that wants to see tokens and believes the issuer."""
    facility = Facility(tmp_path_factory.mktemp("access") / "facility")
    facility.create(**SMALL)
    facility.configure("require_token", "true")
    believe(facility, table(issuer))
    facility.up()
    facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
    for path in ("/vo", "/vo/data"):
        facility.bp("mkdir", path)
        facility.bp("chmod", "777", path)
    facility.put_bytes(b"private", "/other/file")
    yield facility
    clean_up([facility])


@pytest.fixture
def files(door: Facility) -> Facility:
    """Put the files there that tests read, change and stage."""
    for name in ("read", "staged", "removed"):
        door.bp("rm", f"/vo/data/{name}", check=False)
        door.put_bytes(name.encode(), f"/vo/data/{name}")
    door.bp("rm", "/vo/data/new", check=False)
    return door


def bearing(facility: Facility, token: str) -> dict[str, str]:
    """Make clients of the field trust the facility's authority and show a token."""
    authorities = str(facility.directory / "tls" / "trust")
    return {
        "X509_CERT_DIR": authorities,
        "BEARER_TOKEN": token,
        "XRD_LOGLEVEL": "Error",
        "GFAL_PYTHONBIN": SYSTEM_PYTHON,
    }


def curl(facility: Facility, path: str, *words: str | Path, token: str = "") -> tuple[int, str]:
    """Make a request at the HTTPS door; its status and what it says."""
    authority = facility.directory / "tls" / "ca.pem"
    fields = ("-H", f"Authorization: Bearer {token}") if token else ()
    url = facility.endpoint("https") + path
    text = run("curl", "-sS", "-w", "\n%{http_code}", "--cacert", authority, *fields, *words, url).out
    body, _, code = text.rpartition("\n")
    return int(code), body


def by_root(facility: Facility, token: str, right: str, local: Path, back: Path) -> Outcome:
    """Use a right with XRootD's clients: ztn over TLS."""
    url, env = facility.endpoint("roots"), bearing(facility, token)
    attempts: dict[str, tuple[str | Path, ...]] = {
        "read": ("xrdcp", "-s", "-f", f"{url}//vo/data/read", back),
        "create": ("xrdcp", "-s", local, f"{url}//vo/data/new"),
        "modify": ("xrdfs", url, "rm", "/vo/data/removed"),
        "stage": ("xrdfs", url, "prepare", "-s", "/vo/data/staged"),
    }
    return run(*attempts[right], env=env, check=False)


def by_davs(facility: Facility, token: str, right: str, local: Path, back: Path) -> Outcome:
    """Use a right with gfal2 over davs."""
    url, env = facility.endpoint("https").replace("https:", "davs:"), bearing(facility, token)
    attempts: dict[str, tuple[str | Path, ...]] = {
        "read": ("gfal-copy", "-f", f"{url}/vo/data/read", f"file://{back}"),
        "create": ("gfal-copy", f"file://{local}", f"{url}/vo/data/new"),
        "modify": ("gfal-rm", f"{url}/vo/data/removed"),
    }
    return run(*attempts[right], env=env, check=False)


def by_curl(facility: Facility, token: str, right: str, local: Path, back: Path) -> Outcome:
    """Use a right with curl."""
    authority = facility.directory / "tls" / "ca.pem"
    words: dict[str, tuple[str | Path, ...]] = {
        "read": ("read", "-o", back),
        "create": ("new", "-T", local),
        "modify": ("removed", "-X", "DELETE"),
    }
    name, *rest = words[right]
    fields = ("-H", f"Authorization: Bearer {token}", "--cacert", authority, "--fail-with-body")
    return run("curl", "-sS", *fields, *rest, f"{facility.endpoint('https')}/vo/data/{name}", check=False)


WAYS = {"root": by_root, "davs": by_davs, "curl": by_curl}
TOOLS = {"root": ("xrdcp", "xrdfs"), "davs": ("gfal-copy", "gfal-rm"), "curl": ("curl",)}
CASES = [(way, right) for way in WAYS for right in RIGHTS if (way, right) not in {("davs", "stage"), ("curl", "stage")}]
"""Files are staged by the XRootD protocol."""


@pytest.mark.parametrize("kid", ["rsa", "ec"])
@pytest.mark.parametrize(("way", "right"), CASES)
def test_each_right_is_granted(
    files: Facility, issuer: Issuer, sample: Path, tmp_path: Path, way: str, right: str, kid: str
) -> None:
    need(*TOOLS[way])
    token = issuer.token(f"openid storage.{right}:/data", kid)
    outcome = WAYS[way](files, token, right, sample, tmp_path / "back")
    assert outcome.code == 0, outcome
    names = {entry["name"] for entry in files.call("list", path="/vo/data")["entries"]}
    if right == "read":
        assert (tmp_path / "back").read_bytes() == b"read"
    assert ("new" in names) == (right == "create")
    assert ("removed" in names) == (right != "modify")
    if right == "create":
        assert files.stat("/vo/data/new")["owner"] == "vo"
    if right == "stage":
        assert files.stat("/vo/data/staged")["pins"]


@pytest.mark.parametrize("given", ["others", "elsewhere", "none"])
@pytest.mark.parametrize(("way", "right"), CASES)
def test_each_right_is_refused(
    files: Facility, issuer: Issuer, sample: Path, tmp_path: Path, way: str, right: str, given: str
) -> None:
    """With every right but those that include the one in question, on another path, and without any."""
    need(*TOOLS[way])
    enough = {"create": {"create", "modify"}}.get(right, {right})
    scope = {
        "others": " ".join(f"storage.{other}:/data" for other in RIGHTS if other not in enough),
        "elsewhere": f"storage.{right}:/dat storage.{right}:/data/other storage.{right}:/vo/data",
        "none": "openid compute.read",
    }[given]
    outcome = WAYS[way](files, issuer.token(scope), right, sample, tmp_path / "back")
    assert outcome.code != 0, outcome
    if way != "davs":
        # curl keeps what is said where the file would be; xrdcp looks first, and asks to replace what it makes.
        said = outcome.text + ((tmp_path / "back").read_text() if (tmp_path / "back").exists() else "")
        asked = ("create", "modify", "look at") if right == "create" else (right,)
        assert any(f"does not allow to {word}" in said for word in asked), said
    names = {entry["name"] for entry in files.call("list", path="/vo/data")["entries"]}
    assert names == {"read", "staged", "removed"}
    assert not files.stat("/vo/data/staged")["pins"]
    assert not (tmp_path / "back").exists() or (tmp_path / "back").read_bytes() != b"read"


def of_another_time(issuer: Issuer) -> str:
    """Expired a second ago."""
    return issuer.token("storage.read:/", exp=int(time.time()) - 1)


def too_early(issuer: Issuer) -> str:
    """Good in two minutes."""
    return issuer.token("storage.read:/", nbf=int(time.time()) + 120)


def endless(issuer: Issuer) -> str:
    """Without an end."""
    return issuer.token("storage.read:/", exp=None)


def ends_with_a_word(issuer: Issuer) -> str:
    """With an end that is no number."""
    return issuer.token("storage.read:/", exp=str(int(time.time()) + 600))


def forged(issuer: Issuer) -> str:
    """Signed by somebody else with the name of the issuer's key."""
    return issuer.token("storage.read:/", "ec", issuer.stranger)


def changed(issuer: Issuer) -> str:
    """Put another body into a good one."""
    head, _, signature = issuer.token("storage.read:/data").split(".")
    return f"{head}.{part(issuer.claims('storage.read:/'))}.{signature}"


def for_others(issuer: Issuer) -> str:
    """For another audience."""
    return issuer.token("storage.read:/", aud=["https://other.example", f"{AUDIENCE}/"])


def for_nobody(issuer: Issuer) -> str:
    """Without an audience."""
    return issuer.token("storage.read:/", aud=None)


def unsigned(issuer: Issuer) -> str:
    """With the algorithm that is none."""
    return f"{part({'alg': 'none'})}.{part(issuer.claims('storage.read:/'))}."


def by_public_key(issuer: Issuer) -> str:
    """Take the public key for a secret."""
    text = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(issuer.claims('storage.read:/'))}"
    secret = issuer.keys["rsa"].public("PEM")
    return f"{text}.{text_of(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def other_algorithm(issuer: Issuer) -> str:
    """Name the RSA key and sign with the other."""
    return issuer.token("storage.read:/", "rsa", issuer.keys["ec"])


def critical(issuer: Issuer) -> str:
    """With an extension that must be understood."""
    text = f"{part({'alg': 'RS256', 'kid': 'rsa', 'crit': ['x']})}.{part(issuer.claims('storage.read:/'))}"
    return f"{text}.{text_of(issuer.keys['rsa'].sign(text))}"


def of_a_stranger(issuer: Issuer) -> str:
    """Of an issuer that is not believed, however like it is to one that is."""
    return issuer.token("storage.read:/", iss=f"{issuer.url}/")


def pathless(issuer: Issuer) -> str:
    """With a scope that names no path."""
    return issuer.token("storage.read:/data storage.read")


def upwards(issuer: Issuer) -> str:
    """With a path that leaves the issuer's directory."""
    return issuer.token("storage.read:/%2e%2e/other")


def of_the_future(issuer: Issuer) -> str:
    """Of a version of the profile that is not known."""
    return issuer.token("storage.read:/", **{"wlcg.ver": "2.0"})


def of_no_group(issuer: Issuer) -> str:
    """Without a scope, and with groups that mean nothing here."""
    return issuer.token("openid", **{"wlcg.groups": ["/vo/other"]})


REFUSALS: dict[Refusal, str] = {
    of_another_time: "has expired",
    too_early: "not valid yet",
    endless: "malformed",
    ends_with_a_word: "malformed",
    forged: "was not signed by",
    changed: "was not signed by",
    for_others: "for another audience",
    for_nobody: "names no audience",
    unsigned: "not taken here",
    by_public_key: "was not signed by this facility",
    other_algorithm: "a key of another kind",
    critical: "extensions that are not understood",
    of_a_stranger: "which this facility does not accept",
    pathless: "scope storage.read",
    upwards: "scope storage.read",
    of_the_future: "version",
    of_no_group: "neither a storage scope nor a group",
}


@pytest.mark.parametrize("make", REFUSALS, ids=lambda make: make.__name__)
def test_bad_tokens_are_refused_in_clear_words(files: Facility, issuer: Issuer, tmp_path: Path, make: Refusal) -> None:
    need("xrdcp", "curl")
    token = make(issuer)
    code, body = curl(files, "/vo/data/read", token=token)
    assert (code, REFUSALS[make] in body) == (401, True), body
    outcome = by_root(files, token, "read", tmp_path, tmp_path / "back")
    assert outcome.code != 0
    assert REFUSALS[make] in outcome.text, outcome
    assert not (tmp_path / "back").exists()


def test_a_scope_that_is_too_small_is_another_answer_than_a_bad_token(files: Facility, issuer: Issuer) -> None:
    need("curl")
    assert curl(files, "/vo/data/read")[0] == 401
    assert curl(files, "/vo/data/read", token=issuer.token("storage.stage:/"))[0] == 403
    code, body = curl(files, "/other/file", token=issuer.token("storage.read:/"))
    assert (code, "it allows storage.read:/vo" in body) == (403, True), body
    code, body = curl(files, "/api/v1/bill", token=issuer.token("storage.read:/"))
    assert (code, "for files only" in body) == (403, True), body


def test_permissions_of_the_namespace_count_beside_scopes(files: Facility, issuer: Issuer) -> None:
    need("curl")
    token = issuer.token("storage.modify:/ storage.read:/")
    files.bp("chmod", "600", "/vo/data/read")
    code, body = curl(files, "/vo/data/read", token=token)
    assert (code, "user vo may not read /vo/data/read" in body) == (403, True), body
    code, body = curl(files, "/vo/x", "-X", "MKCOL", token=issuer.token("storage.create:/"))
    assert code == 201
    files.bp("chmod", "755", "/vo")
    code, body = curl(files, "/vo/y", "-X", "MKCOL", token=token)
    assert (code, "user vo may not change" in body) == (403, True), body
    files.bp("chmod", "777", "/vo")


def test_groups_become_groups_of_the_facility(files: Facility, issuer: Issuer, sample: Path) -> None:
    need("curl")
    ann = issuer.token("openid", sub="subject-ann", **{"wlcg.groups": ["/vo/strange", "/vo/prod", "/vo"]})
    assert curl(files, "/vo/data/new", "-T", sample, token=ann)[0] == 201
    found = files.stat("/vo/data/new")
    assert (found["owner"], found["group"]) == ("ann", "prod")
    files.bp("chmod", "640", "/vo/data/new")
    for groups, code in ((["/vo/prod"], 200), (["/vo"], 403)):
        member = issuer.token("openid", **{"wlcg.groups": groups})
        assert curl(files, "/vo/data/new", token=member)[0] == code, groups
    # Whoever has scopes has no groups.
    both = issuer.token("storage.read:/", **{"wlcg.groups": ["/vo/prod"]})
    assert curl(files, "/vo/data/new", token=both)[0] == 403
    assert curl(files, "/vo/data/new", token=issuer.token("storage.read:/", sub="subject-ann"))[0] == 200
    # Not even groups reach beyond the issuer's directory.
    assert curl(files, "/other/file", token=ann)[0] == 403


def test_scitokens(files: Facility, issuer: Issuer, sample: Path) -> None:
    need("curl")
    old = {"wlcg.ver": None, "ver": "scitoken:2.0"}
    assert curl(files, "/vo/data/read", token=issuer.token("read:/data", aud="ANY", **old)) == (200, "read")
    assert curl(files, "/vo/data/new", "-T", sample, token=issuer.token("write:/data", **old))[0] == 201
    assert curl(files, "/vo/data/read", token=issuer.token("write:/data", **old))[0] == 403
    assert curl(files, "/vo/data/read", token=issuer.token("storage.read:/data", **old))[0] == 403
    code, body = curl(files, "/vo/data/read", token=issuer.token("storage.read:/", aud="ANY"))
    assert (code, "another audience" in body) == (401, True), body


def test_a_token_in_the_url(files: Facility, issuer: Issuer, tmp_path: Path) -> None:
    need("xrdcp", "xrdfs")
    url, env = files.endpoint("roots"), {**bearing(files, ""), "BEARER_TOKEN": ""}
    good, bad = issuer.token("storage.read:/data"), issuer.token("storage.create:/data")
    run("xrdcp", "-s", f"{url}//vo/data/read?authz=Bearer%20{good}", tmp_path / "back", env=env)
    assert (tmp_path / "back").read_bytes() == b"read"
    outcome = run("xrdcp", "-s", "-f", f"{url}//vo/data/read?authz=Bearer%20{bad}", "-", env=env, check=False)
    assert outcome.code != 0
    assert "does not allow to read" in outcome.text, outcome
    # At every request, not only at opens.
    listed = run("xrdfs", url, "ls", f"/vo/data?authz=Bearer%20{good}", env=env)
    assert "/vo/data/read" in listed.out
    staging = issuer.token("storage.stage:/data")
    for words, needed in (
        (("ls", "/vo/data"), "list"),
        (("rm", "/vo/data/removed"), "modify"),
        (("mkdir", "/vo/data/x"), "make directory"),
        (("chmod", "/vo/data/removed", "rwx------"), "modify"),
    ):
        verb, path, *rest = words
        outcome = run("xrdfs", url, verb, f"{path}?authz=Bearer%20{staging}", *rest, env=env, check=False)
        assert outcome.code != 0, outcome
        assert f"does not allow to {needed}" in outcome.text, outcome
    modify = issuer.token("storage.modify:/data")
    run("xrdfs", url, "rm", f"/vo/data/removed?authz=Bearer%20{modify}", env=env)
    assert "removed" not in {entry["name"] for entry in files.call("list", path="/vo/data")["entries"]}


def test_directories_on_the_way_to_a_scope(files: Facility, issuer: Issuer, sample: Path) -> None:
    need("curl")
    token = issuer.token("storage.create:/data/deep/er")
    for path, code in (("/vo/data/deep", 201), ("/vo/data/deep/er", 201), ("/vo/data/flat", 403)):
        assert curl(files, path, "-X", "MKCOL", token=token)[0] == code, path
    assert curl(files, "/vo/data/deep/f", "-T", sample, token=token)[0] == 403
    assert curl(files, "/vo/data/deep/er/f", "-T", sample, token=token)[0] == 201
    assert curl(files, "/vo/data", "-I", token=token)[0] == 200
    assert curl(files, "/vo/data/", token=token)[0] == 403
    files.bp("rm", "/vo/data/deep/er/f")
    for path in ("/vo/data/deep/er", "/vo/data/deep"):
        files.bp("rmdir", path)


def test_keys_are_kept_and_fetched_when_they_change(make_facility: Callable[..., Facility], tmp_path: Path) -> None:
    need("curl", "openssl")
    issuer = Issuer(tmp_path / "issuer")
    facility = make_facility()
    facility.configure("require_token", "true")
    believe(facility, table(issuer))
    del issuer.published["ec"]
    facility.up()
    facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
    facility.put_bytes(b"x", "/vo/f")
    assert curl(facility, "/vo/f", token=issuer.token("storage.read:/"))[0] == 200
    asked = len(issuer.asked)
    assert curl(facility, "/vo/f", token=issuer.token("storage.read:/"))[0] == 200
    assert len(issuer.asked) == asked
    # A new key is fetched when it is first seen; what is unknown then is not asked for again and again.
    issuer.published["ec"] = issuer.keys["ec"]
    assert curl(facility, "/vo/f", token=issuer.token("storage.read:/", "ec"))[0] == 200
    asked = len(issuer.asked)
    for kid in ("unknown1", "unknown2"):
        issuer.keys[kid] = issuer.stranger
        code, body = curl(facility, "/vo/f", token=issuer.token("storage.read:/", kid))
        assert (code, "does not publish" in body) == (401, True), body
    assert len(issuer.asked) == asked
    # Keys outlive their issuer.
    issuer.close()
    assert curl(facility, "/vo/f", token=issuer.token("storage.read:/", "ec"))[0] == 200


def swollen(issuer: Issuer) -> dict[str, bytes | str | None]:
    """More than a MiB."""
    good = issuer.document("/vo/jwk") or b""
    return {"/vo/jwk": good + b" " * (1 << 20)}


def downgraded(issuer: Issuer) -> dict[str, bytes | str | None]:
    """Send to where there is no TLS."""
    return {"/vo/jwk": issuer.url.replace("https:", "http:") + "/jwk"}


def elsewhere(issuer: Issuer) -> dict[str, bytes | str | None]:
    """Has its keys where there is no TLS."""
    place = {"issuer": issuer.url, "jwks_uri": "http://localhost/jwk"}
    return {"/vo/.well-known/openid-configuration": json.dumps(place).encode()}


def somebody_else(issuer: Issuer) -> dict[str, bytes | str | None]:
    """Says that it is another one."""
    place = {"issuer": f"{issuer.url}2", "jwks_uri": f"{issuer.url}/jwk"}
    return {"/vo/.well-known/openid-configuration": json.dumps(place).encode()}


def keyless(_: Issuer) -> dict[str, bytes | str | None]:
    """Has only keys of other kinds."""
    return {"/vo/jwk": json.dumps({"keys": [{"kty": "oct", "kid": "rsa", "k": "AAAA"}]}).encode()}


def garbled(_: Issuer) -> dict[str, bytes | str | None]:
    """Says nothing that makes sense."""
    return {"/vo/jwk": b"\xff\xfe{"}


def silent(_: Issuer) -> dict[str, bytes | str | None]:
    """Take the question and never answer."""
    return {"/vo/jwk": None}


@pytest.mark.parametrize(
    "mend",
    [swollen, downgraded, elsewhere, somebody_else, keyless, garbled, silent],
    ids=lambda mend: mend.__name__,
)
def test_an_issuer_that_answers_badly_harms_nobody_else(
    make_facility: Callable[..., Facility],
    tmp_path: Path,
    mend: Callable[[Issuer], dict[str, bytes | str | None]],
) -> None:
    need("curl", "openssl")
    issuer = Issuer(tmp_path / "issuer")
    issuer.mended = mend(issuer)
    facility = make_facility()
    facility.expect_log("cannot fetch the keys of a token issuer")
    believe(facility, table(issuer))
    facility.up()
    facility.put_bytes(b"x", "/vo/f")
    own = facility.bp("token", "create").out.strip()
    assert curl(facility, "/vo/f", token=own)[0] == 200
    began = time.monotonic()
    code, body = curl(facility, "/vo/f", token=issuer.token("storage.read:/"))
    assert (code, ", so its tokens are refused" in body) == (401, True), body
    assert time.monotonic() - began < 20
    assert curl(facility, "/vo/f", token=own)[0] == 200
    issuer.close()


def test_an_issuer_that_cannot_be_verified_is_not_believed(
    make_facility: Callable[..., Facility], issuer: Issuer
) -> None:
    need("curl")
    facility = make_facility()
    facility.expect_log("cannot fetch the keys of a token issuer")
    believe(facility, table(issuer, ca=str(facility.directory / "tls" / "ca.pem")))
    facility.up()
    facility.put_bytes(b"x", "/vo/f")
    code, body = curl(facility, "/vo/f", token=issuer.token("storage.read:/"))
    assert (code, ", so its tokens are refused" in body) == (401, True), body
    assert curl(facility, "/vo/f", token=facility.bp("token", "create").out.strip())[0] == 200


def test_no_issuer_makes_an_operator(make_facility: Callable[..., Facility], issuer: Issuer) -> None:
    need("curl")
    facility = make_facility()
    believe(facility, table(issuer, user=facility.owner))
    facility.up()
    facility.put_bytes(b"x", "/vo/f")
    code, body = curl(facility, "/vo/f", token=issuer.token("storage.read:/"))
    assert (code, "only this facility's own tokens can act as" in body) == (401, True), body


def test_secrets_are_in_no_log(files: Facility, issuer: Issuer) -> None:
    need("curl")
    token = issuer.token("storage.read:/data")
    assert curl(files, "/vo/data/read", token=token)[0] == 200
    assert curl(files, "/vo/data/read", token=token[:-4] + "AAAA")[0] == 401
    log = files.log.read_text(errors="replace")
    assert token.split(".")[1] not in log
    assert token.split(".")[2][:40] not in log
