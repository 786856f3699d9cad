"""`python -m swapstone`."""

from swapstone.cli.main import main

if __name__ == "__main__":
    main()
