module libmmsb

go 1.25
