"""What people see of runs in a browser: `tinker-ext ui`, and the samples recorded for it."""
