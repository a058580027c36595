"""Importers of neural-network operations: windows, norms, attention, recurrent cells, spectra."""
