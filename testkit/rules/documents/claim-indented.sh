  # threadseal:signed:1-shell
