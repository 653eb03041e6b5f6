// Takes the place of the module's glue where the module was not built: the page then has one engine, and shows this.
export const absent = true;
