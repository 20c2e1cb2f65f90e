/* host.c — the kernels' host build in this package: cgo compiles only what lies in its folder. */
#include "../../kernels/host.c"
