"""`python -m plant`: the `plant` command."""

from plant.cli.main import main

if __name__ == "__main__":
    main()
