"""`tinker-ext ui`: a live page of the runs in a folder."""

from __future__ import annotations

import errno
import secrets
import socket
import webbrowser
from pathlib import Path

import click

from tinker_ext._extras import how_to_install
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of

EXAMPLES = """
tinker-ext ui                          # the runs below this folder
tinker-ext ui runs --port 8765         # those of another one, always at the same port
tinker-ext ui runs/a/metrics.jsonl     # one run
tinker-ext ui --open                   # also open the browser
ssh -L 8717:127.0.0.1:8717 machine     # then open the printed address here: a run elsewhere
"""


@click.command(cls=Command, name="ui", examples=EXAMPLES)
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=8717, show_default=True,
              help="Port; 0 takes any free one, which is printed.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Interface to listen on; 0.0.0.0 lets other machines in.")  # fmt: skip
@click.option("--allow-host", "names", multiple=True, metavar="NAME",
              help="One more name under which the page is reached. May be repeated.")  # fmt: skip
@click.option("--token", metavar="TEXT", envvar="TINKER_EXT_UI_TOKEN", show_envvar=True,
              help="What the address must contain; by default a new one each time.")  # fmt: skip
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
@click.pass_context
def command(
    context: click.Context,
    folder: Path,
    port: int,
    host: str,
    names: tuple[str, ...],
    token: str | None,
    show: bool,
) -> None:
    """Show the runs in FOLDER on a live page: curves, waits, retries, cost and samples.

    It shows the runs that write a run log, ServiceClient(run_log="runs/name"), in or below FOLDER.
    Nothing is sent anywhere: the page comes from this machine and needs the token in its address.
    Ctrl-C stops it, with exit code 0.
    """
    if not folder.exists():
        raise CommandError(f"there is no folder {folder}", "Name the folder of your runs.")
    try:
        import uvicorn

        from tinker_ext.ui import app
    except ImportError as error:
        raise CommandError(
            f"the page needs {error.name}", f"Install it with: {how_to_install('ui')}"
        ) from None
    token = token or secrets.token_urlsafe(18)
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    everywhere = host in ("0.0.0.0", "::")
    hosts = (*app.LOOPBACK, *names, *(("*", socket.gethostname()) if everywhere else (host,)))
    reached = "127.0.0.1" if everywhere else host
    address = f"http://{f'[{reached}]' if ':' in reached else reached}:{port}/?token={token}"
    screen = screen_of(context)
    if screen.is_json:
        screen.json({"url": address})
    else:
        print(
            f"The runs in {click.format_filename(folder)}, live:\n  {address}\nStop with Ctrl-C.",
            flush=True,
        )
    if everywhere:
        screen.note("Other machines can reach this page; whoever has the address sees the runs.")
    if show:
        webbrowser.open(address)
    server = uvicorn.Server(
        uvicorn.Config(
            app.make(folder, token, hosts, str(port)),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
            server_header=False,
        )
    )
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        return
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        hint = "--host must be a name or an address of this machine."
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            hint = "Use --port 0 for any free port; another `tinker-ext ui` may be running."
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}", hint) from None
    listening.listen(128)
    return listening
