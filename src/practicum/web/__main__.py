"""``python -m practicum.web``."""

from practicum.web.server import main

if __name__ == "__main__":
    main()
