// What computes a layer that is written in Python: an object of the user's class, with pycaffe's blobs. Only
// src/layers/pybind11 runs Python. That is a shared library of its own, libbanyan_pybind11.so, which is
// loaded with the first such layer and starts one interpreter for the whole process. A build without Python
// has these functions too, and refuses to make a program. Internal to the room.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/layers/layer.hpp"

namespace banyan {

struct PythonProgramOptions {
  std::string name;  ///< the layer's
  std::string module, layer, settings;
  Phase phase = Phase::test;
  DType dtype = DType::f32;  ///< of all arrays, f32 or f64
  std::size_t inputs = 0;
  std::vector<int> outputs;  ///< each one's input of the same name, whose blob it is; -1: none
};

enum class PythonBlobs : std::uint8_t { inputs, outputs, parameters };

/// An object of the class. Its blobs are arrays of its own on the host, in logical order; they last until the
/// shape of their blob changes. Calls may come from any thread, one at a time for each object; of all objects
/// one runs at a time. What Python raises is an Error that names the layer, the exception and the places in
/// the user's code: bad_input from set_up() and reshape(), a runtime failure from the others.
class PythonProgram {
 public:
  virtual ~PythonProgram() = default;
  /// setup(): with inputs of these shapes.
  virtual void set_up(const std::vector<Shape>& inputs) = 0;
  /// reshape(): the same.
  virtual void reshape(const std::vector<Shape>& inputs) = 0;
  virtual void forward() = 0;
  /// With all gradients of inputs and parameters 0 before it, but for inputs that are outputs too.
  virtual void backward(const std::vector<bool>& propagate) = 0;

  virtual std::vector<Shape> shapes(PythonBlobs of) = 0;
  /// Memory of `count` values, which must be as many as the blob has.
  virtual void* data(PythonBlobs of, std::size_t number, std::int64_t count) = 0;
  virtual void* gradient(PythonBlobs of, std::size_t number, std::int64_t count) = 0;
};

/// Imports the module and makes an object of the class. Throws bad_input if that cannot be.
std::unique_ptr<PythonProgram> make_python_program(const PythonProgramOptions& options);

/// Why no layer of this module can run: this build or this machine has no Python, or it does not find the
/// module; "" if one can. Nothing of the module is run, but the packages that it is in are.
std::string why_no_python(const std::string& module);

}  // namespace banyan
