"""Compiled kernels, one module for each concern; :mod:`thalweg.engine.kernels.cache` says where they are kept."""
