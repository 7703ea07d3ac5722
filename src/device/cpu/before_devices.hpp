// What other rooms do before there is a CPU device.
#pragma once

namespace banyan {

/// `prepare` is called once, before the first CPU device is made. For static objects.
void before_cpu_devices(void (*prepare)());

}  // namespace banyan
