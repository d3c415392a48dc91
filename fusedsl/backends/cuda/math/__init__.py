"""The vocabulary of bodies on CUDA: functions of scalars."""
