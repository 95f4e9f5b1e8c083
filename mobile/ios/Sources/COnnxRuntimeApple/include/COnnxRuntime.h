#pragma once
// The framework of Microsoft's package has no module map, so Swift imports its C API through this target.
#include <onnxruntime/onnxruntime_c_api.h>
