"""`python -m grads` is the command `grads`."""

from grads.cli import main

if __name__ == "__main__":
    main()
