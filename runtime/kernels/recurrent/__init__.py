"""Recurrent kernels: LSTM, GRU, RNN."""
