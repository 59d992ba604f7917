"""`python -m nmt` is the command `nmt`."""

import signal


def main() -> None:
    """Run the command. Ctrl-C during the imports ends it silently, with exit status 130."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `nmt.console.command.guarded`
    from nmt.cli import main as run

    run()


if __name__ == "__main__":
    main()
