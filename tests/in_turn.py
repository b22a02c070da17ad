"""Programs in processes of their own, one after the other."""

import os
import subprocess
import sys

# What they import takes longer than they do: it is imported once, where there is a fork.
CODE = """
import os, sys, {module}
*programs, last = sys.argv[1:]
for program in programs:
    child = os.fork()
    if child == 0:
        break
    if os.waitpid(child, 0)[1]:
        sys.exit("the first that failed is above")
else:
    program = last
exec(program)
"""


def run_in_turn(*programs, module="contract", **environment):
    """Run each program in a process of its own, in which a module is imported already."""
    helpers = {"PYTHONPATH": os.path.dirname(__file__)}
    for some in [programs] if hasattr(os, "fork") else zip(programs):
        command = [sys.executable, "-c", CODE.format(module=module), *some]
        environment = os.environ | helpers | environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
