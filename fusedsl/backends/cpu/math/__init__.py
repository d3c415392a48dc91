"""The functions of bodies as LLVM code: branch-free, so that loops over them vectorise."""
