#define TESSERA_DENSE avx2
#define Eigen tessera_eigen_avx2
#include "loops.h"
