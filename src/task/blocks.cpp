#include <weft/task/blocks.hpp>

namespace weft {

BlockCache::~BlockCache() {
  for (Shelf& shelf : shelves_) {
    while (shelf.first != nullptr) {
      Free* block = shelf.first;
      shelf.first = block->next;
      ::operator delete(block);
    }
  }
}

}  // namespace weft
