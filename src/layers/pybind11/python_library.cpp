// Layers in Python, run by pybind11 in an interpreter of this process.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "base/signal_thread.hpp"
#include "layers/pybind11/interpreter.hpp"
#include "layers/python_backend.hpp"

namespace py = pybind11;

namespace banyan {
namespace {

/// Calls `work` with the lock, and turns what Python raises into an Error that begins with `who`.
template <class Work>
auto with_python(ErrorKind kind, const std::string& who, const Work& work) {
  const SignalsAllowed in_what_it_starts;
  const py::gil_scoped_acquire lock;
  try {
    return work();
  } catch (py::error_already_set& raised) {
    throw Error(kind, cat(who, ": ", text_of(raised)));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(kind, cat(who, ": ", error.what()));
  }
}

std::string why_not(const std::string& module) {
  try {
    ensure_python();
  } catch (const Error& error) {
    return error.message();
  }
  const py::gil_scoped_acquire lock;
  try {
    if (!py::module_::import("importlib.util").attr("find_spec")(module).is_none()) return "";
  } catch (py::error_already_set& raised) {
    if (!raised.matches(PyExc_ModuleNotFoundError)) return text_of(raised);
  }
  return cat("there is no module ", quoted(module),
             ": it is looked for in the folders of PYTHONPATH, and in the working folder");
}

py::tuple tuple_of(const Shape& shape) {
  py::tuple dims(static_cast<std::size_t>(shape.axes()));
  for (int axis = 0; axis < shape.axes(); ++axis) dims[static_cast<std::size_t>(axis)] = shape[axis];
  return dims;
}

class Program : public PythonProgram {
 public:
  explicit Program(const PythonProgramOptions& options);

  void set_up(const std::vector<Shape>& inputs) override { call_with(inputs, "setup"); }
  void reshape(const std::vector<Shape>& inputs) override { call_with(inputs, "reshape"); }
  void forward() override {
    with_python(ErrorKind::runtime, cat(who_, " in forward()"), [&] {
      python_.layer.attr("forward")(blobs_of(PythonBlobs::inputs), blobs_of(PythonBlobs::outputs));
    });
  }
  void backward(const std::vector<bool>& propagate) override {
    with_python(ErrorKind::runtime, cat(who_, " in backward()"), [&] {
      const py::tuple outputs = blobs_of(PythonBlobs::outputs);
      for (const PythonBlobs of : {PythonBlobs::inputs, PythonBlobs::parameters})
        for (const py::handle blob : blobs_of(of))
          if (std::none_of(outputs.begin(), outputs.end(),
                           [&](py::handle output) { return output.is(blob); }))
            blob.attr("diff").attr("fill")(0);
      python_.layer.attr("backward")(outputs, py::cast(propagate), blobs_of(PythonBlobs::inputs));
    });
  }

  std::vector<Shape> shapes(PythonBlobs of) override {
    return with_python(ErrorKind::runtime, who_, [&] {
      std::vector<Shape> all;
      for (const py::handle blob : blobs_of(of))
        all.emplace_back(py::cast<std::vector<std::int64_t>>(blob.attr("shape")));
      return all;
    });
  }
  void* data(PythonBlobs of, std::size_t number, std::int64_t count) override {
    return memory(of, number, count, "data");
  }
  void* gradient(PythonBlobs of, std::size_t number, std::int64_t count) override {
    return memory(of, number, count, "diff");
  }

 private:
  py::tuple blobs_of(PythonBlobs of) const { return py::tuple(python_.blobs[static_cast<std::size_t>(of)]); }
  void call_with(const std::vector<Shape>& inputs, const char* method) {
    with_python(ErrorKind::bad_input, cat(who_, " in ", method, "()"), [&] {
      const py::tuple bottom = blobs_of(PythonBlobs::inputs);
      for (std::size_t i = 0; i < inputs.size(); ++i) bottom[i].attr("reshape")(*tuple_of(inputs[i]));
      python_.layer.attr(method)(bottom, blobs_of(PythonBlobs::outputs));
    });
  }
  void* memory(PythonBlobs of, std::size_t number, std::int64_t count, const char* which) {
    return with_python(ErrorKind::runtime, who_, [&] {
      auto array = py::cast<py::array>(blobs_of(of)[number].attr(which));
      if (array.size() != count)
        runtime_failure(who_, " has reshaped its ",
                        of == PythonBlobs::inputs    ? "input "
                        : of == PythonBlobs::outputs ? "output "
                                                     : "parameter ",
                        number, ", which has ", count, " values, to ", array.size());
      return array.mutable_data();
    });
  }

  struct Objects {
    ~Objects() {
      const py::gil_scoped_acquire lock;
      layer = blobs[0] = blobs[1] = blobs[2] = py::object();
    }
    py::object layer;
    std::array<py::object, 3> blobs;  ///< by PythonBlobs: tuples of Blob, and a BlobVec
  };

  std::string who_;
  Objects python_;
};

Program::Program(const PythonProgramOptions& options)
    : who_(cat("layer ", quoted(options.name), " (Python, ", options.module, ".", options.layer, ")")) {
  ensure_python();
  with_python(ErrorKind::bad_input, cat(who_, " cannot be made"), [&] {
    const py::module_ caffe = py::module_::import("caffe");
    const py::module_ module = py::module_::import(options.module.c_str());
    if (!py::hasattr(module, options.layer.c_str()))
      bad_input(who_, ": module ", quoted(options.module), " has no class ", quoted(options.layer));
    const py::object made = module.attr(options.layer.c_str());
    if (!py::isinstance<py::type>(made) || PyObject_IsSubclass(made.ptr(), caffe.attr("Layer").ptr()) != 1)
      bad_input(who_, ": ", quoted(options.layer), " is not a class derived from caffe.Layer");
    const char* dtype = options.dtype == DType::f64 ? "float64" : "float32";
    py::list bottom, top;
    for (std::size_t i = 0; i < options.inputs; ++i) bottom.append(caffe.attr("Blob")(dtype));
    for (const int in_place : options.outputs)
      top.append(in_place < 0 ? caffe.attr("Blob")(dtype)
                              : py::object(bottom[static_cast<std::size_t>(in_place)]));
    const py::object parameters = caffe.attr("BlobVec")(dtype);
    python_.blobs = {py::tuple(bottom), py::tuple(top), parameters};
    py::object& object = python_.layer = made(py::none());
    object.attr("param_str") = options.settings;
    object.attr("param_str_") = options.settings;  // its name in earlier versions
    object.attr("phase") = caffe.attr(options.phase == Phase::train ? "TRAIN" : "TEST");
    if (!py::hasattr(object, "name"))
      object.attr("name") = options.name;  // pycaffe has none: it may be the class's
    object.attr("blobs") = parameters;
    for (const char* method : {"setup", "reshape", "forward"})
      if (!py::hasattr(object, method))
        bad_input(who_, ": the class has no method ", method, "(bottom, top)");
  });
}

std::unique_ptr<PythonProgram> make(const PythonProgramOptions& options) {
  return std::make_unique<Program>(options);
}

constexpr PythonBackend kTable{PythonBackend::kVersion, &make, &why_not};

}  // namespace
}  // namespace banyan

extern "C" const banyan::PythonBackend* banyan_python_backend() { return &banyan::kTable; }
