#include "COnnxRuntime.h"  // SwiftPM compiles no target without a source
