"""What the robots of the zoo are made of, and the command that writes their files.

`python -m tools.zoo` writes every file of `src/tiburon/zoo/`; `--check` compares instead. Loops,
legs and chains are easier to get right as a few lines of Python than as some hundred numbers typed
by hand; what ships, and what is read, are the files.
"""
