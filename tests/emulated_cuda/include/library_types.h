// The part of NVIDIA's library_types.h that the emulator provides.
#pragma once

enum libraryPropertyType_t { MAJOR_VERSION = 0, MINOR_VERSION = 1, PATCH_LEVEL = 2 };
using libraryPropertyType = libraryPropertyType_t;
