"""What other ecosystems see of robots: environments, functions of frameworks, exports.

Everything here is optional: a file imports what it serves when it is used, and names the extra that
installs it where that is missing.
"""
