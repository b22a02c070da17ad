"""Run programs in separate processes, one after the other."""

import os
import subprocess
import sys

# Imports take longer than the programs: where fork is available, the module is imported once.
CODE = """
import os, sys, {module}
*programs, last = sys.argv[1:]
for program in programs:
    child = os.fork()
    if child == 0:
        break
    if os.waitpid(child, 0)[1]:
        sys.exit("the traceback above is that of the first failed program")
else:
    program = last
exec(program)
"""


def run_in_turn(*programs, module="contract", **environment):
    """Run each program in a process of its own that has imported the module."""
    helpers = {"PYTHONPATH": os.path.dirname(__file__)}
    for batch in [programs] if hasattr(os, "fork") else zip(programs):
        command = [sys.executable, "-c", CODE.format(module=module), *batch]
        environment = os.environ | helpers | environment
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
