/** A client of authorizerd's decision stream. It needs nothing but {@code java.base}. */
module authorizerd.client {
    exports authorizerd.client;
}
