// A stream that is dropped cancels its request, so that submit() is not to be ignored.
#include <decant/decoding/service.hpp>

void submit(decant::decoding::Service& service, const decant::decoding::Request& request) {
#ifdef DECANT_REFUSED
  service.submit(request);
#else
  static_cast<void>(service.submit(request).wait());
#endif
}

int main() {}
