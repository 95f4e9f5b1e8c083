#pragma once

#include <stddef.h>

// The loops over whole rows of RowMath.swift, whose comments say what they compute. They are in C because Swift's numbers in
// vectors take much longer in a debug build.

size_t row_argmax(const float *row, size_t size);
double row_weigh(const float *from, size_t count, float largest, float divisor, float *to);
double row_sum(const float *numbers, size_t count);
double row_masked_sum(const float *numbers, const float *mask, size_t count);
