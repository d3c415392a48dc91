"""Math functions as LLVM code, branch-free: loops over them vectorise."""
