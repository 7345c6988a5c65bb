// A workspace borrows its executor, so a temporary thread pool is refused.
#include <decant/core/thread_pool.hpp>
#include <decant/model/workspace.hpp>

int main() {
  const decant::model::Config config;
#ifdef DECANT_REFUSED
  decant::model::Workspace workspace(config, {}, decant::ThreadPool(2));
#else
  decant::ThreadPool pool(2);
  decant::model::Workspace workspace(config, {}, pool);
#endif
  return static_cast<int>(workspace.limits().rows);
}
