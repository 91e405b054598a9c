module files

go 1.21
