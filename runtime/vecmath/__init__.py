"""Vector mathematics: exp, log, trigonometric and hyperbolic functions."""
