"""`python -m everview.cli`"""

from everview.cli import main

if __name__ == "__main__":
    main()
