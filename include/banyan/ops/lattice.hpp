// Gaussian filtering of vectors at points of a space by a permutohedral lattice (Adams, Baek, Davis 2010):
// each point gives its vector to the `corners` vertices of the simplex around it, vertices mix theirs with
// those of their neighbours along each axis, and each point takes the mean of its corners.
//
// Vectors have C elements: those of points are (points, C), those of vertices (vertices, C). Entry e of
// `weights` (points * corners) is that of corner e % corners of point e / corners.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// values[v] = sum over the entries[starts[v]] to entries[starts[v + 1] - 1] of their weight times x at their
/// point. starts (vertices + 1) and entries: i32.
inline constinit Operator<void(const Tensor& x, const Tensor& weights, const Tensor& starts,
                               const Tensor& entries, Tensor& values)>
    lattice_splat{"lattice_splat"};
/// y[v] = x[v] + (x[neighbours[2 v]] + x[neighbours[2 v + 1]]) / 2; neighbours (2 * vertices, i32), -1: there
/// is none.
inline constinit Operator<void(const Tensor& x, const Tensor& neighbours, Tensor& y)> lattice_blur{
    "lattice_blur"};
/// y[p] = sum over point p's entries e of weights[e] * values[vertices[e]], or, if `add`, that plus y[p].
/// vertices: i32.
inline constinit Operator<void(const Tensor& values, const Tensor& weights, const Tensor& vertices, bool add,
                               Tensor& y)>
    lattice_slice{"lattice_slice"};

}  // namespace banyan::ops
