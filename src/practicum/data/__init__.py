"""Readers for people's files, one module per kind; each validates and explains.

Nothing heavy is imported here: ``practicum list --for FILE`` sniffs a file with
:mod:`practicum.data.kinds` alone.
"""
