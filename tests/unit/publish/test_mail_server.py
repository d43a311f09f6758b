"""The way to the mail server: real TLS, real logins, and what is refused instead of sent."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.errors import EnvironmentProblem
from penstock.platform.files import write_private
from penstock.publish.mail import NoMailServer, mail_server
from penstock.settings import NotifySettings, Settings
from tests.integration.publish.sinks import SmtpSink

USER, PASSWORD = "penstock", "pa55-of-the-mail-server"


def certificate(folder: Path, name: x509.GeneralName) -> Path:
    """A key and its certificate for a name, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    us = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sink")])
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    made = (
        x509.CertificateBuilder(us, us, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    (folder / "ca.pem").write_bytes(made.public_bytes(pem))
    return folder / "ca.pem"


def speaking(ca: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, ca.with_name("key.pem"))
    return context


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return certificate(tmp_path, x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


@pytest.fixture
def serve() -> Iterator[Callable[..., SmtpSink]]:
    made: list[SmtpSink] = []

    def start(*args, **kwargs) -> SmtpSink:
        made.append(SmtpSink(*args, **kwargs))
        return made[-1]

    yield start
    for sink in made:
        sink.close()


@pytest.fixture
def password(settings: Settings) -> Path:
    return write_private(settings.secrets_folder / "smtp-password", f"{PASSWORD}\n")


def send_one(settings: Settings, **known: str) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "penstock@example.com", "a@example.com", "x"
    mail.set_content("text")
    with mail_server(replace(settings, notify=NotifySettings(**known))) as server:
        server.send_message(mail)


@pytest.mark.parametrize("way", ["starttls", "from-start"])
def test_a_login_over_tls(settings, serve, ca, password, way):
    sink = serve(speaking(ca), from_start=way == "from-start", login=(USER, PASSWORD))
    send_one(settings, smtp=sink.address, tls=way, ca=str(ca), user=USER)
    assert len(sink.mails) == 1
    in_the_clear = [verb for verb, secured in sink.heard if not secured]
    assert in_the_clear == ([b"EHLO", b"STARTTLS"] if way == "starttls" else [])
    assert (b"AUTH", True) in sink.heard


def test_tls_without_a_login(settings, serve, ca):
    sink = serve(speaking(ca))
    send_one(settings, smtp=sink.address, tls="starttls", ca=str(ca))
    assert len(sink.mails) == 1


def test_a_login_on_loopback_needs_no_tls(settings, serve, password):
    sink = serve(login=(USER, PASSWORD))
    send_one(settings, smtp=sink.address, user=USER)
    assert len(sink.mails) == 1


@pytest.mark.parametrize(
    "smtp", ["mail.example.com:25", "192.0.2.1:25", "localhost.example.com:25"]
)
def test_a_login_without_tls_to_anywhere_else_is_refused(smtp):
    with pytest.raises(EnvironmentProblem, match="could read the password") as refused:
        NotifySettings(smtp=smtp, user=USER)
    assert "starttls" in refused.value.remedy
    NotifySettings(smtp=smtp, user=USER, tls="starttls")
    NotifySettings(smtp="[::1]:25", user=USER)


def test_the_settings_are_read_from_the_project_and_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path))
    file = tmp_path / "pyproject.toml"
    lines = ['smtp = "mail.example.com:465"', 'tls = "from-start"', f'user = "{USER}"']
    start = "[tool.penstock]\n[tool.penstock.notify]\n"
    file.write_text(start + "\n".join(lines))
    assert Settings.load().notify == NotifySettings(
        smtp="mail.example.com:465", tls="from-start", user=USER
    )
    for wrong, said in (
        ([lines[0], lines[2]], "no TLS"),
        ([*lines[:1], 'tls = "ssl"'], "tls is 'ssl'"),
        ([*lines, 'password = "x"'], "it takes smtp, sender"),
    ):
        file.write_text(start + "\n".join(wrong))
        with pytest.raises(EnvironmentProblem, match=said):
            Settings.load()


@pytest.mark.parametrize("way", ["starttls", "from-start"])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_that_is_not_who_it_should_be_gets_no_password(
    settings, serve, tmp_path, ca, password, way, trusted
):
    """Nobody vouches for it, or it is somebody else who is trusted."""
    if trusted:
        ca = certificate(tmp_path, x509.DNSName("mail.example.com"))
    sink = serve(speaking(ca), from_start=way == "from-start", login=(USER, PASSWORD))
    known = {"ca": str(ca)} if trusted else {}
    with pytest.raises(NoMailServer, match="certificate verify failed"):
        send_one(settings, smtp=sink.address, tls=way, user=USER, **known)
    assert {verb for verb, _ in sink.heard} <= {b"EHLO", b"STARTTLS"}


def test_a_server_without_the_tls_that_is_set_gets_nothing(settings, serve, password):
    """Also where somebody on the way takes the offer out of its answer."""
    sink = serve(login=(USER, PASSWORD))
    with pytest.raises(NoMailServer, match="STARTTLS extension not supported"):
        send_one(settings, smtp=sink.address, tls="starttls", user=USER)
    assert {verb for verb, _ in sink.heard} == {b"EHLO"}


def test_a_refused_login_tells_its_number_and_no_secret(settings, serve, password):
    """The server says what it was given; its words are not passed on."""
    sink = serve(login=(USER, "another"))
    with pytest.raises(NoMailServer) as refused:
        send_one(settings, smtp=sink.address, user=USER)
    assert refused.value.message == f"{sink.address} refused the login of {USER} (535)."
    assert refused.value.__cause__ is None
    assert sink.mails == []


def test_a_password_that_cannot_be_used_is_told_before_anybody_is_asked(settings, serve, password):
    sink = serve(login=(USER, PASSWORD))

    def refusal() -> str:
        with pytest.raises(NoMailServer) as refused:
            send_one(settings, smtp=sink.address, user=USER)
        return str(refused.value)

    password.chmod(0o640)
    assert f"chmod 600 {password}" in refusal()
    write_private(password, "pässword")
    assert "pässword" not in refusal()
    write_private(password, "\n")
    assert "is empty" in refusal()
    password.unlink()
    assert f"Write it into {password}" in refusal()
    assert sink.heard == []


def test_a_file_of_certificates_that_is_not_there_is_named(settings, serve, ca):
    sink = serve(speaking(ca))
    with pytest.raises(NoMailServer, match=r"gone\.pem cannot be read"):
        send_one(settings, smtp=sink.address, tls="starttls", ca="gone.pem")
