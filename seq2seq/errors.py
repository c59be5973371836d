"""The exceptions that a user is meant to read."""


class UserError(Exception):
    """Something the user can put right: one sentence that says what, where and what to do.

    The command line prints it without a traceback and exits with status 2.
    """


class UnfitError(UserError):
    """One result that this input does not allow, while others of the same command may do."""
