// Python layers without inputs: a class of the user's makes the batches, as pycaffe runs it. Before each one
// reshape() and forward() are called. The replicas of a run share one object, whose batches are dealt to
// them, so that N devices see what one device sees with N times as many batches.
#include "banyan/base/log.hpp"
#include "banyan/data/batch_source.hpp"
#include "banyan/data/shared_batches.hpp"
#include "layers/python_batches.hpp"
#include "layers/python_layer.hpp"

namespace banyan {
namespace {

class PythonSource : public Layer, public data::TestPassSource {
 public:
  PythonSource(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {0, 0, 1, -1},
               .source = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false}) {
    const data::SharingScope* scope = data::SharingScope::current();
    if (scope == nullptr) return;
    key_ = cat(reinterpret_cast<std::uintptr_t>(scope->run()), " ", scope->next_name(name()));
  }

  void read_settings() override {
    check_python_settings(parameter_);
    if (parameter_.python_param().has_max_samples())
      refuse("python_param.max_samples is for layers with inputs: this one may bring any number of samples");
  }

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    const PythonProgramOptions program =
        python_options(parameter_, options().phase, dtype(), inputs, outputs);
    batches_ = key_.empty() ? std::make_shared<PythonBatches>(program, options().devices)
                            : PythonBatches::shared(key_, program, options().devices);
    batches_->join(options().rank);
  }

  void reshape(const Blobs&, const Blobs& outputs) override {
    const std::vector<Shape> shapes = batches_->first_shapes();
    for (std::size_t k = 0; k < outputs.size(); ++k) set_output(*outputs[k], shapes[k]);
  }

  void prepare(Pass& pass, const Blobs& outputs) override {
    if (dealt_whole() && left_ == 0) {
      if (announced_)
        runtime_failure("layer ", quoted(name()), ": a test pass has no more batches for device ",
                        options().rank);
      begin_pass(static_cast<std::uint64_t>(options().devices));
    }
    if (taken_ == 0 && pass.iteration > 0 && !dealt_whole() && options().rank == 0)
      log_warning(cat("layer ", quoted(name()),
                      " (Python) begins with its first batch again: a snapshot does "
                      "not hold what a program in Python had read"));
    batch_ = batches_->take(first_ + static_cast<std::uint64_t>(options().rank) +
                            taken_ * static_cast<std::uint64_t>(options().devices));
    ++taken_;
    if (dealt_whole()) --left_;
    for (std::size_t k = 0; k < outputs.size(); ++k) set_output(*outputs[k], batch_[k].shape);
  }

  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    for (std::size_t k = 0; k < outputs.size(); ++k)
      copy_from_array(*pass.context, batch_.at(k).values.data(), outputs[k]->data);
  }
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  void begin_test_pass(int test_iter) override {
    begin_pass(static_cast<std::uint64_t>(test_iter));
    announced_ = true;
  }
  void end_test_pass() override {
    if (left_ > 0) batches_->skip(options().rank, after_);
    left_ = 0;
  }

 private:
  bool dealt_whole() const { return options().net_phase == Phase::test; }
  void begin_pass(std::uint64_t batches) {
    end_test_pass();
    first_ = after_;
    after_ = first_ + batches;
    taken_ = 0;
    left_ = data::batches_served(batches, options().rank, options().devices);
    batches_->begin_turns(first_);
  }

  std::string key_;  ///< "": the net is alone
  std::shared_ptr<PythonBatches> batches_;
  PythonBatches::Batch batch_;
  std::uint64_t first_ = 0, taken_ = 0;  ///< of the test pass, or of all
  std::uint64_t after_ = 0, left_ = 0;   ///< the end of the test pass; batches of this device in it
  bool announced_ = false;
};

}  // namespace

std::unique_ptr<Layer> make_python_source(const caffe::LayerParameter& parameter,
                                          const LayerOptions& options) {
  return std::make_unique<PythonSource>(parameter, options);
}

}  // namespace banyan
