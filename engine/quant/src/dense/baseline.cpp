#define TESSERA_DENSE baseline
#include "loops.h"
